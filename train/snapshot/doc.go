// Package snapshot stores the state for resuming a training run: weights, moments and other arrays, the number of
// the step, and facts such as the data position and the configuration. A snapshot is either complete or absent,
// whenever a process is killed, and it opens on any mesh.
//
// A run has a Folder with one subfolder per snapshot:
//
//	step-00000020/part-00001-of-00002.safetensors   the shards written by the first process
//	step-00000020/part-00002-of-00002.safetensors
//	step-00000020/manifest.json                     the list of contents, written last
//
// Every shard of an array is written by one process, the one with the lowest rank holding it. If processes do not
// share the folder, each folder holds the shards of its own processes and the same manifest; no folder gets its
// manifest.json before all have ready.json. A process opening a snapshot reads only its ranks' shards, and verifies
// them against checksums.
//
// Begin with Folder.Save and Folder.Latest. With State.Model a snapshot can be opened as a model as well; it then
// contains config.json and the tokenizer's files. Package checkpoint/parts documents the format of the folder.
package snapshot
