package ring

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// FromEnv returns the ring that the environment describes as mlx.launch does, and
// this process's rank in it: MLX_HOSTFILE names a file of addresses, MLX_RANK is
// a number. It is where these two are read.
func FromEnv(getenv func(string) string) (nodes hostfile.Nodes, rank int, err error) {
	name, number := getenv("MLX_HOSTFILE"), getenv("MLX_RANK")
	if name == "" || number == "" {
		return nil, 0, fmt.Errorf("ring: environment: MLX_HOSTFILE is %q and MLX_RANK is %q, want both; mlx.launch --backend ring sets them", name, number)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, fmt.Errorf("ring: environment: MLX_HOSTFILE: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, hostfile.MaxNodesBytes+1))
	if err != nil {
		return nil, 0, fmt.Errorf("ring: environment: MLX_HOSTFILE: %w", err)
	}
	if nodes, err = hostfile.ParseNodes(data); err != nil {
		return nil, 0, fmt.Errorf("ring: environment: MLX_HOSTFILE %s: %w", name, err)
	}
	if rank, err = strconv.Atoi(number); err != nil || rank < 0 || rank >= len(nodes) {
		return nil, 0, fmt.Errorf("ring: environment: MLX_RANK is %q, want 0 to %d, as %s has %d ranks", number, len(nodes)-1, name, len(nodes))
	}
	return nodes, rank, nil
}
