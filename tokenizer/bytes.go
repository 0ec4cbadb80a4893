package tokenizer

import "encoding/json"

// Bytes returns a tokenizer.json with 256 ids standing for the bytes of a text, for models trained on bytes;
// transformers opens it too. The tokenizer has no special tokens and adds none around a text.
func Bytes() ([]byte, error) {
	a := newAlphabet()
	vocab := map[string]int32{}
	for b, char := range a.chars {
		vocab[char] = int32(b)
	}
	no := false
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": no, "trim_offsets": no, "use_regex": no}
	return json.MarshalIndent(map[string]any{
		"version":        "1.0",
		"truncation":     nil,
		"padding":        nil,
		"added_tokens":   []any{},
		"normalizer":     nil,
		"pre_tokenizer":  level,
		"post_processor": nil,
		"decoder":        level,
		"model": map[string]any{
			"type":                      "BPE",
			"dropout":                   nil,
			"unk_token":                 nil,
			"continuing_subword_prefix": nil,
			"end_of_word_suffix":        nil,
			"fuse_unk":                  no,
			"byte_fallback":             no,
			"ignore_merges":             no,
			"vocab":                     vocab,
			"merges":                    []any{},
		},
	}, "", "  ")
}
