// Package tokenizer makes token ids of text, and text of ids.
//
// [Open] opens what published models come with: the file tokenizer.json of Hugging
// Face. [Tokenizer.Encode] gives the ids that the Python package tokenizers gives,
// and [Tokenizer.Decode] its texts. [Tokenizer.Stream] decodes tokens as they are
// generated and never splits a character. [Bytes] writes a tokenizer.json for
// models whose ids are bytes.
//
// The package trains no tokenizers, and it knows nothing of models and arrays.
package tokenizer
