// Package peft reads and writes adapters of models: folders as Hugging Face's PEFT has them, with adapter_config.json and
// adapter_model.safetensors, and as mlx-lm has them, with adapters.safetensors. It reads checkpoints of runs that train
// adapters, too. A folder has the adapters alone; the model is elsewhere.
//
// Arrays have the names and shapes of nn.LoRA's parameters. PEFT has a tensor for each expert, for models of transformers 4, or one for
// all experts, for transformers 5; both are read, and the second is written.
//
// Begin with Open, Write and WriteMLX.
package peft
