// Package generate writes texts with a model, token after token, many at once. A prompt runs through the model in
// blocks, and each further token by itself; what attention needs of earlier tokens stays in caches. Ranks of
// a mesh compute together and all come to the same tokens.
//
// Begin with Open. Tokens are ids: package tokenizer makes them of text.
package generate
