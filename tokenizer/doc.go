// Package tokenizer converts text to token ids and back.
//
// Begin with [Open], which opens the files of published models: tokenizer.json of Hugging Face, or tokenizer.model
// of SentencePiece. [FromGGUF] uses the values of a GGUF file. [Tokenizer.Encode] gives the same ids as the Python
// packages tokenizers and sentencepiece, and [Tokenizer.Decode] the same texts. [Tokenizer.Stream] decodes tokens
// as they are generated and never splits a character. [Tokenizer.Template] renders a conversation using the model's
// chat template. [Bytes] writes a tokenizer.json for models with bytes as tokens.
//
// The package does not train tokenizers, and is independent of models and arrays.
package tokenizer
