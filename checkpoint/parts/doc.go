// Package parts has the files of a checkpoint whose arrays lie in parts: safetensors files, each of which one process has
// written, with a checksum of every MiB, and a manifest, which is written last, so that a checkpoint is complete or not there. Its
// arrays may be the weights of a model; Set.Tensors gives them as a model's files have them.
//
// Begin with Open. Package train/snapshot writes the files, and package checkpoint opens the model.
package parts
