// Package convert writes a model's files in another form: safetensors files as Hugging Face has them, MLX's layout of
// them, or a GGUF file, with the same numbers or with rounded ones. Tensors go through memory in pieces, so a model of any
// size takes a few megabytes. The tokenizer and the chat template go along, and so does what the model says about itself.
//
// What a family's tensors and settings are called is what package models says; nothing here is about a family.
//
// Begin with Model.
package convert
