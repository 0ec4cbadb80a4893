package tokenizer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Some editors begin a file with a byte order mark.
func TestMark(t *testing.T) {
	_, want := Parse([]byte("{}"))
	_, got := Parse([]byte("\ufeff{}"))
	require.Equal(t, want, got)
	tok := Tokenizer{vocab: &vocabulary{}}
	files := map[string][]byte{configName: []byte("\ufeff{}"), specialName: []byte("\ufeff{}"), addedName: []byte("\ufeff{}")}
	c, err := settings(files)
	require.NoError(t, err)
	require.NoError(t, tok.configure(c, files))
}
