package models

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What versions of transformers save is the model that was saved; testdata/saved.py has saved it.
func TestSavedByTransformers(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "saved.json"))
	require.NoError(t, err)
	var versions map[string]map[string][]map[string]any
	require.NoError(t, json.Unmarshal(text, &versions))
	require.NotEmpty(t, versions)
	for version, families := range versions {
		for family, files := range families {
			want := described(configOf(t, family))
			for _, config := range files {
				if got := described(config); got != want {
					t.Errorf("%s saved by transformers %s: %s\nwant %s", family, version, apart(got, want), apart(want, got))
				}
			}
		}
	}
}
