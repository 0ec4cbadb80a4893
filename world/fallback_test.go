package world_test

import (
	"bytes"
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
	want      [2]string // of each rank's error, and of its fallback
}

// A transport that one rank or all do not have is an error on all that names those,
// or with Fallback another one, on all.
func TestFallback(t *testing.T) {
	twice := filepath.Join(t.TempDir(), "nodes.json")
	require.NoError(t, os.WriteFile(twice, []byte(`[["127.0.0.1:7"],["127.0.0.1:7"]]`), 0o600))
	for _, c := range append(lacking(), lack{"ring", [2]string{"MLX_RANK=0 MLX_HOSTFILE=" + twice, "MLX_RANK=1 MLX_HOSTFILE=" + twice}, [2]string{"a port of its own", "a port of its own"}}) {
		for _, fallback := range []bool{false, true} {
			var logs [2]bytes.Buffer
			errs := worlds(t, 2, func(i int) world.Config {
				return world.Config{Transport: c.transport, Fallback: fallback, Log: &logs[i], Getenv: func(string) string { return c.env[i] }}
			}, func(i int, w *world.World) error {
				info, err := w.Info()
				if err != nil {
					return err
				}
				if info.Transport != "tcp" || len(info.Fallbacks) != 1 || !strings.Contains(info.Fallbacks[0], c.want[i]) || !strings.Contains(logs[i].String(), c.want[i]) {
					t.Errorf("%s: process %d: %+v, log %s", c.transport, i, info, &logs[i])
				}
				return w.Warmup(t.Context())
			})
			for i, err := range errs {
				if fallback && err != nil || !fallback && (err == nil || !strings.Contains(err.Error(), c.want[i])) {
					t.Errorf("%s, fallback %v: process %d: %v, want %q", c.transport, fallback, i, err, c.want[i])
				}
			}
		}
	}
}
