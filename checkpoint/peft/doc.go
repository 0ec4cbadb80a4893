// Package peft reads and writes adapters of models: folders of Hugging Face's PEFT, with adapter_config.json and
// adapter_model.safetensors, and folders of mlx-lm, with adapters.safetensors. It also reads checkpoints of runs
// training adapters. A folder contains only the adapters, not the model.
//
// Arrays have the names and shapes of nn.LoRA's parameters. PEFT stores one tensor per expert for transformers 4,
// or one for all experts for transformers 5; both are read, and the second form is written.
//
// Begin with Open, Write and WriteMLX.
package peft
