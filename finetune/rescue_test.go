package finetune

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/train"
)

// A run whose first checkpoint cannot be written leaves what it has learned, and begins again over it: an adapter, which is not
// merged yet, or all weights.
func TestFirstSaveFails(t *testing.T) {
	model := folderOf(t, "olmoe")
	c, m, tok := open(t, model)
	for _, all := range []bool{false, true} {
		o := options(t)
		o.All, o.Steps, o.Tokenizer, o.Saves.Every = all, 3, tok, 2
		made := filepath.Join(o.Out, peft.FileName)
		if all {
			made = filepath.Join(o.Out, "model")
		} else {
			o.Merge = filepath.Join(t.TempDir(), "merged")
		}
		saves := filepath.Join(o.Out, "checkpoints")
		again := o
		o.Stdout = tells{func(text string) {
			if strings.Contains(text, "1/3  loss") {
				require.NoError(t, os.WriteFile(saves, nil, 0o666))
			}
		}}
		_, err := Run(context.Background(), context.Background(), m, c, o)
		require.ErrorContains(t, err, "of 3 steps are done: ")
		require.FileExists(t, filepath.Join(o.Out, train.RescuedName))
		_, err = os.Lstat(made)
		require.NoError(t, err)
		require.NoError(t, os.Remove(saves))
		_, err = Run(context.Background(), context.Background(), m, c, again)
		require.ErrorContains(t, err, "an earlier run has left "+made+" when it failed, and no checkpoint; give -resume")
		again.Saves.Resume = true
		r, err := Run(context.Background(), context.Background(), m, c, again)
		require.NoError(t, err)
		require.Equal(t, 3, r.Ended.Steps)
		require.NoFileExists(t, filepath.Join(o.Out, train.RescuedName))
		if !all {
			require.DirExists(t, o.Merge)
		}
	}
}

// tells passes on what is written.
type tells struct{ to func(string) }

func (a tells) Write(p []byte) (int, error) { a.to(string(p)); return len(p), nil }
