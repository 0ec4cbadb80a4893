package verbs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
)

func TestFromEnv(t *testing.T) {
	dir := t.TempDir()
	devices, bad := filepath.Join(dir, "devices.json"), filepath.Join(dir, "bad.json")
	require.NoError(t, os.WriteFile(devices, []byte(`[[null, "rdma_en5"], ["rdma_en3", null]]`), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte(`[[null]`), 0o600))
	env := func(kv ...string) func(string) string {
		return func(name string) string {
			for i := len(kv) - 2; i >= 0; i -= 2 {
				if kv[i] == name {
					return kv[i+1]
				}
			}
			return ""
		}
	}
	mlx := []string{"MLX_RANK", "1", "MLX_IBV_DEVICES", devices, "MLX_JACCL_COORDINATOR", "10.0.0.1:32323"}
	o, err := FromEnv(env(mlx...))
	require.NoError(t, err)
	if o.Rank != 1 || o.Coordinator != "10.0.0.1:32323" || fmt.Sprint(o.Devices) != "[[[] [rdma_en5]] [[rdma_en3] []]]" || o.Library != "" || o.AllGo || o.deadline() != jaccl.DefaultDeadline {
		t.Errorf("MLX's variables give %+v", o)
	}
	o, err = FromEnv(env(append(mlx, "JACCL_RANK", "0", "JACCL_COORDINATOR", "h:1", "JACCL_LIBRDMA", "/l")...))
	require.NoError(t, err)
	if o.Rank != 0 || o.Coordinator != "h:1" || o.Library != "/l" {
		t.Errorf("JACCL's variables, which come first, give %+v", o)
	}
	for _, c := range []struct{ name, value, want string }{
		{"MLX_RANK", "", `JACCL_RANK or MLX_RANK is "", want the number of this rank`},
		{"MLX_RANK", "one", `MLX_RANK is "one", want the number`},
		{"MLX_RANK", "-1", `MLX_RANK is "-1"`},
		{"JACCL_RANK", "2", "rank 2, want 0 to 1"},
		{"MLX_IBV_DEVICES", "", "JACCL_IBV_DEVICES or MLX_IBV_DEVICES is not set, want the path"},
		{"MLX_IBV_DEVICES", "/nowhere", "MLX_IBV_DEVICES: open /nowhere"},
		{"MLX_IBV_DEVICES", bad, "hostfile: devices: "},
		{"MLX_JACCL_COORDINATOR", "", "JACCL_COORDINATOR or MLX_JACCL_COORDINATOR is not set, want the address of rank 0"},
		{"MLX_JACCL_RING", "0", "MLX_JACCL_RING is set, which asks for JACCL's ring: only its mesh is spoken here"},
	} {
		_, err := FromEnv(env(append(mlx[:len(mlx):len(mlx)], c.name, c.value)...))
		contains(t, err, "rdma: environment: ", c.want)
	}
}
