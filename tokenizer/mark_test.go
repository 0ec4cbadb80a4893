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
	var tok Tokenizer
	require.NoError(t, tok.configure([]byte("\ufeff{}")))
}
