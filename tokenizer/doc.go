// Package tokenizer makes token ids of text, and text of ids.
//
// [Open] opens what published models come with: the file tokenizer.json of Hugging
// Face, or the tokenizer.model of SentencePiece. [FromGGUF] takes the values of a
// GGUF file. [Tokenizer.Encode] gives the ids that the Python packages tokenizers
// and sentencepiece give, and [Tokenizer.Decode] their texts. [Tokenizer.Stream]
// decodes tokens as they are generated and never splits a character.
// [Tokenizer.Template] writes a conversation as the model's chat template says.
// [Bytes] writes a tokenizer.json for models whose ids are bytes.
//
// The package trains no tokenizers, and it knows nothing of models and arrays.
package tokenizer
