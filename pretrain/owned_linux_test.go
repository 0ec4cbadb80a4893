package pretrain

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/tokenizer"
)

// A run does not write where another one does, with -resume neither: it would cut the rows of the other's metrics.csv.
func TestOwned(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	settings := fmt.Sprintf(`{"model": {"model_type": "olmoe", %s}, "data": {"files": [%q]}, "steps": 1, "batch": 2, "length": 8, "save_every": 1}`, small, corpus(t, "a.txt", prose))
	_, err := follow(t, settings, out, false)
	require.NoError(t, err)
	before, err := os.ReadFile(filepath.Join(out, "metrics.csv"))
	require.NoError(t, err)
	release, err := whole.Own(out)
	require.NoError(t, err)
	_, err = follow(t, settings, out, true)
	require.ErrorContains(t, err, "another run writes to "+out+"; wait until it ends, or give another folder")
	after, err := os.ReadFile(filepath.Join(out, "metrics.csv"))
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoError(t, release())
	_, err = follow(t, settings, out, true)
	require.NoError(t, err)
}

// A run that is refused because another one writes to the folder, or to the folder of its routes, writes nothing.
func TestOwnedUntouched(t *testing.T) {
	dir := t.TempDir()
	text, err := tokenizer.Bytes()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, tokenizer.FileName), text, 0o666))
	s, err := Parse("s.json", fmt.Appendf(nil, `{"model": {"model_type": "olmoe", %s}, "data": {"files": [%q], "tokenizer": %q}, "steps": 1, "batch": 2, "length": 8}`, small, corpus(t, "a.txt", prose), dir))
	require.NoError(t, err)
	o := Options{Out: filepath.Join(dir, "out"), Record: filepath.Join(dir, "routes")}
	for _, taken := range []string{o.Record, o.Out} {
		require.NoError(t, whole.Folder(taken))
		release, err := whole.Own(taken)
		require.NoError(t, err)
		require.EqualError(t, Run(t.Context(), t.Context(), s, o), "pretrain: another run writes to "+taken+"; wait until it ends, or give another folder")
		for _, folder := range []string{o.Out, o.Record} {
			left, err := os.ReadDir(folder)
			require.NoError(t, err)
			require.Empty(t, left)
		}
		require.NoError(t, release())
	}
	require.NoError(t, Run(t.Context(), t.Context(), s, o))
	require.FileExists(t, filepath.Join(o.Out, "train.tokens"))
}
