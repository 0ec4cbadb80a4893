package tokenizer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The ids of the tokenizer of bytes are the bytes of a text, and stand for them.
func TestBytes(t *testing.T) {
	data, err := Bytes()
	require.NoError(t, err)
	tok, err := Parse(data)
	require.NoError(t, err)
	require.Equal(t, 256, tok.Size())
	for _, line := range readLines(t)[:2000] {
		line = lossy(line)
		want := make([]int32, len(line))
		for i := range len(line) {
			want[i] = int32(line[i])
		}
		ids, err := tok.Encode(line, Options{})
		require.NoError(t, err)
		require.Equal(t, want, ids)
		require.Equal(t, line, tok.Decode(ids))
	}
}

// Metaspace of scheme first puts no ▁ before a text whose first character the normalizer removes. The ids are of package tokenizers.
func TestMetaspaceAfterRemovedCharacters(t *testing.T) {
	for normalizer, want := range map[string]map[string][]int32{
		`{"type":"Strip","strip_left":true,"strip_right":true}`:                                                         {"a": {3}, " a": {2}, "  a b": {2, 5}, "aab": {3, 2, 4}},
		`{"type":"Replace","pattern":{"Regex":"^ +"},"content":""}`:                                                     {"a": {3}, " a": {2}, "  a b": {2, 5}, "aab": {3, 2, 4}},
		`{"type":"Replace","pattern":{"String":" "},"content":"▁"}`:                                                     {"a": {3}, " a": {3}, "  a b": {1, 3, 5}, "aab": {3, 2, 4}},
		`{"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"}]}`:                                    {"a": {3}, " a": {3}, "\u0301a": {2}, "aab": {3, 2, 4}},
		`{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true}`: {"\x01a": {2}, "A": {3}, "  a b": {1, 3, 5}},
		`{"type":"Prepend","prepend":"b"}`:                                                                              {"a": {5, 2}, " a": {5, 3}, "  a b": {5, 1, 3, 5}},
	} {
		tok, err := Parse([]byte(`{"model":{"type":"BPE","unk_token":"<unk>","vocab":{"<unk>":0,"▁":1,"a":2,"▁a":3,"b":4,"▁b":5},"merges":["▁ a","▁ b"]},"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true},"normalizer":` + normalizer + `}`))
		require.NoError(t, err)
		for text, ids := range want {
			got, err := tok.Encode(text, Options{})
			require.NoError(t, err)
			require.Equal(t, ids, got, "%s: %q", normalizer, text)
		}
	}
}
