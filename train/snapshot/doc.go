// Package snapshot keeps what a training run needs to go on: weights, moments and other arrays,
// the number of the step, and facts such as the position in the data and the configuration.
// A snapshot is complete or not there, whenever a process is killed, and it opens on any mesh.
//
// A run has a Folder, in which every snapshot is a folder of its own:
//
//	step-00000020/part-00001-of-00002.safetensors   what the first process holds
//	step-00000020/part-00002-of-00002.safetensors
//	step-00000020/manifest.json                     what is in it, written last
//
// Every part of an array is written by one process, the one with the lowest rank that holds it.
// Where processes do not see the same folder, each folder has the parts that its processes hold, and
// the same manifest; all have ready.json before one has manifest.json.
// A process that opens a snapshot reads only what its ranks hold, and checks what it reads
// against checksums.
//
// Begin with Folder.Save and Folder.Latest. With State.Model a snapshot opens as a model, too, and has
// config.json and the tokenizer's files beside its parts; what lies in a folder is written down in package
// checkpoint/parts.
package snapshot
