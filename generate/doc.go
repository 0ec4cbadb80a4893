// Package generate generates texts with a model, token by token, for many sequences concurrently. A prompt is
// processed in blocks, and each further token in a step of its own; keys and values of earlier tokens are cached.
// The ranks of a mesh compute together and all obtain the same tokens.
//
// Begin with Open. Tokens are numbers: package tokenizer converts text to tokens, and package serve answers
// requests over HTTP.
package generate
