package pretrain

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/whole"
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
