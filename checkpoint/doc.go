// Package checkpoint opens models as they are published: a folder with safetensors files, one such
// file, or a GGUF file, which may be one of several; and the checkpoints of training runs. It says
// what is in them; the bytes of tensors stay where they are until they are used, so that a rank
// reads only what it needs.
//
// Begin with Open. Packages safetensors, gguf and parts, below this one, read and write the formats.
package checkpoint
