package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// Punctuation splits at the characters at which the package tokenizers splits.
func TestPunctuation(t *testing.T) {
	f, err := os.Open("internal/pattern/testdata/classes.json.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var file struct{ Classes map[string][][2]rune }
	require.NoError(t, json.NewDecoder(z).Decode(&file))
	want := map[rune]bool{}
	for _, r := range file.Classes["Punctuation"] {
		for c := r[0]; c <= r[1]; c++ {
			want[c] = true
		}
	}
	require.Greater(t, len(want), 500)
	is := punctuation()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if is(r) != want[r] {
			t.Errorf("%U: %v", r, is(r))
		}
	}
}
