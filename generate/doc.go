// Package generate writes text with a model, token after token. A prompt runs through the model in
// blocks, and each further token by itself; what attention needs of earlier tokens stays in caches. Ranks of
// a mesh compute together and all come to the same tokens.
//
// Begin with Open. Tokens are ids: package tokenizer makes them of text.
package generate
