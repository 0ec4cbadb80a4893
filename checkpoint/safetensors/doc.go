// Package safetensors reads and writes files of named tensors in the format of Hugging
// Face, https://github.com/huggingface/safetensors: the length of a header in 8 bytes, the header,
// which is JSON, and the tensors' bytes without gaps.
//
// Begin with Open and Write. A model in several files, which an index lists, is a set: see
// OpenSet and WriteSet.
package safetensors
