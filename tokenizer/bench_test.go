package tokenizer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The speed of encoding and decoding all lines as one text, in bytes of text.
// testdata/speed.py measures the Python package tokenizers on the same text.
func BenchmarkEncode(b *testing.B) {
	bench(b, func(t *Tokenizer, text string, _ []int32) { t.Encode(text, Options{}) })
}
func BenchmarkDecode(b *testing.B) {
	bench(b, func(t *Tokenizer, _ string, ids []int32) { t.Decode(ids) })
}

func bench(b *testing.B, f func(*Tokenizer, string, []int32)) {
	text := lossy(strings.Join(readLines(b), "\n"))
	files := fixtures(b, "tokenizers.zip")
	for _, name := range []string{"gpt2", "llama3", "o200k", "deepseek3", "llama2", "mistral"} {
		b.Run(name, func(b *testing.B) {
			t, err := Parse(files[name+"/tokenizer.json"])
			require.NoError(b, err)
			ids, err := t.Encode(text, Options{})
			require.NoError(b, err)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				f(t, text, ids)
			}
		})
	}
}
