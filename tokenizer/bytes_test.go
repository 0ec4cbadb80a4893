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
