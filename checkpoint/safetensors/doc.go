// Package safetensors reads and writes files of named tensors in Hugging Face's format,
// https://github.com/huggingface/safetensors: the length of a header in 8 bytes, the header, which is JSON, and the
// bytes of the tensors without gaps. It does not interpret names.
//
// Begin with Open and Write. A model stored in several files, listed by an index, is a set: see OpenSet and
// WriteSet.
package safetensors
