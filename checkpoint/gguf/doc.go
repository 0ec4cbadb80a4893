// Package gguf reads and writes model files in the format of ggml and llama.cpp,
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3: keys with
// values, which describe the model and its tokenizer, and tensors, whose elements may lie in blocks.
//
// Begin with Open and Write. A model in several files is a set: see OpenSet.
package gguf
