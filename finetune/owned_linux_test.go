package finetune

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/whole"
)

// A run that is refused because another one writes to the folder leaves the other's tokens as they are.
func TestOwned(t *testing.T) {
	c, m, tok := open(t, folderOf(t, "qwen3_moe"))
	o := options(t)
	o.Tokenizer = tok
	require.NoError(t, whole.Folder(o.Out))
	release, err := whole.Own(o.Out)
	require.NoError(t, err)
	_, err = Run(context.Background(), context.Background(), m, c, o)
	require.EqualError(t, err, "finetune: another run writes to "+o.Out+"; wait until it ends, or give another folder")
	left, err := os.ReadDir(o.Out)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, release())
	o.Steps = 1
	for range 2 { // the first run has released the folder
		_, err = Run(context.Background(), context.Background(), m, c, o)
		o.Saves.Overwrite = true
		require.NoError(t, err)
	}
}
