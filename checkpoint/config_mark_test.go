package checkpoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Some editors begin a file with a byte order mark.
func TestConfigMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), ConfigName)
	require.NoError(t, os.WriteFile(path, []byte("\ufeff{\"model_type\": \"olmoe\"}"), 0o666))
	c, err := ReadConfig(path)
	require.NoError(t, err)
	require.Equal(t, "olmoe", c.Architecture)
}
