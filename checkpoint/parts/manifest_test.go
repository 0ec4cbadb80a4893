package parts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nothing may follow the object of a manifest.
func TestManifestEnds(t *testing.T) {
	m := Manifest{Format: format}
	sum, err := m.sum()
	require.NoError(t, err)
	dir := t.TempDir()
	for text, want := range map[string]string{"": "", " \n": "", " {}garbage": "m.json: column 107: invalid character '{' after top-level value", "x": "invalid character 'x' after top-level value"} {
		object := `{"format": "` + format + `", "sum": "` + sum + `"}`
		require.NoError(t, os.WriteFile(filepath.Join(dir, "m.json"), []byte(object+text), 0o666))
		_, err := ReadManifest(dir, "m.json")
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}
