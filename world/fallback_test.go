package world_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/world"
)

// lack is a transport that some ranks do not have.
type lack struct {
	transport string
	env       [2]string
	want      [2]string // of each rank's error
}

// If a rank lacks the transport, all ranks get an error that names the rank.
func TestLacks(t *testing.T) {
	twice := filepath.Join(t.TempDir(), "nodes.json")
	require.NoError(t, os.WriteFile(twice, []byte(`[["127.0.0.1:7"],["127.0.0.1:7"]]`), 0o600))
	for _, c := range append(lacking(), lack{"ring", [2]string{"MLX_RANK=0 MLX_HOSTFILE=" + twice, "MLX_RANK=1 MLX_HOSTFILE=" + twice}, [2]string{"a port of its own", "a port of its own"}}) {
		errs := worlds(t, 2, func(i int) world.Config {
			return world.Config{Transport: c.transport, Getenv: func(string) string { return c.env[i] }}
		}, func(int, *world.World) error { return nil })
		for i, err := range errs {
			if err == nil || !strings.Contains(err.Error(), c.want[i]) {
				t.Errorf("%s: process %d: %v, want %q", c.transport, i, err, c.want[i])
			}
		}
	}
}
