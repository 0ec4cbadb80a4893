// Package convert writes a model's files in another format: Hugging Face's safetensors, MLX's layout of them, or a
// GGUF file, with the same or rounded numbers. It streams tensors in pieces, so converting a model of any size
// needs a few megabytes of memory. It also converts the tokenizer, the chat template and the model's settings.
//
// Package models provides the names of each family's tensors and settings; almost nothing here is specific to a
// family.
//
// Begin with Model.
package convert
