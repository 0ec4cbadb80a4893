package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Text from outside reaches the terminal without control characters, and in part.
func TestMessages(t *testing.T) {
	hosts := filepath.Join(t.TempDir(), "hosts.json")
	require.NoError(t, os.WriteFile(hosts, []byte(`[["\u001b[31mX\u0007:1"],["127.0.0.1:2"]]`), 0o600))
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct{ args, env []string }{
		{[]string{"-mesh", "dp=2"}, []string{"GOMOE_TRANSPORT=\x1b[31mX"}},
		{[]string{"-mesh", "dp=2", "-transport", "ring"}, []string{"MLX_RANK=0", "MLX_HOSTFILE=" + hosts}},
		{[]string{"-mesh", "dp=4"}, []string{"GOMOE_RANK=0", "GOMOE_SIZE=2", "GOMOE_COORDINATOR=127.0.0.1:1", "GOMOE_JOB=\x1b[31mX"}},
		{[]string{"-mesh", "dp=4"}, []string{"GOMOE_RANK=0", "GOMOE_SIZE=2", "GOMOE_COORDINATOR=127.0.0.1:1", "GOMOE_JOB=" + long}},
		{[]string{"-mesh", "dp=2"}, []string{"RANK=0", "WORLD_SIZE=2", "MASTER_PORT=1", "MASTER_ADDR=" + long}},
		{[]string{"-mesh", "dp=2"}, []string{"RANK=0", "WORLD_SIZE=" + long}},
		{[]string{"-data", "\x1b[31mX"}, nil},
	} {
		cmd := command(c.args)
		cmd.Env = append(cmd.Environ(), c.env...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "%.100q", c.env)
		require.NotContains(t, string(out), "\x1b", "%.100q", c.env)
		require.NotContains(t, string(out), "\a", "%.100q", c.env)
		require.Less(t, len(out), 10_000, "%.100q", c.env)
		require.Contains(t, string(out), "moe_lm: ", "%.100q", c.env)
	}
}
