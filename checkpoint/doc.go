// Package checkpoint opens published models, stored as a folder of safetensors files, a single such file or a GGUF
// file or set, and also checkpoints of training runs. It lists their contents, but reads the bytes of tensors only
// when they are used, so a rank reads only its own shards.
//
// Begin with Open. Packages safetensors, gguf and parts, below this one, read and write the formats. Package models
// interprets the settings.
package checkpoint
