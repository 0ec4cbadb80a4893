// Package parts implements the files of a sharded checkpoint: safetensors files, each written by one process, with
// checksums per MiB, and a manifest, which is written last, so that a checkpoint is either complete or absent. Its
// arrays may be a model's weights; Set.Tensors returns them in the form of a model's files.
//
// Begin with Open. Package train/snapshot writes the files, and package checkpoint opens the model.
package parts
