// Package gguf reads and writes model files in the GGUF format of ggml and llama.cpp,
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3: keys with values, describing the
// model and its tokenizer, and tensors, whose elements may be stored in blocks. It does not interpret the keys.
//
// Begin with Open and Write. A model stored in several files is a set: see OpenSet.
package gguf
