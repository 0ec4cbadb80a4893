//go:build peers

package ring_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/mlx/ring"
)

// Rings of Go ranks and ranks of an installed MLX, in every mixture: all have the
// same bits, which are those of the ring's order. Where no MLX is installed,
// TestRecorded has what it sends.
func TestMLX(t *testing.T) {
	python := os.Getenv("GOMOE_TEST_MLX")
	if python == "" {
		t.Fatal("GOMOE_TEST_MLX does not name a python that has mlx (pip install 'mlx[cpu]' numpy)")
	}
	ts := tasks()
	ts = append(ts, task{"all_sum", "bf16", 3 * 1048576, 1, 0}, task{"all_gather", "f32", 300001, 2, 0}, task{"all_max", "f16", 2*1048576 + 7, 3, 0}, task{"send_recv", "u8", 5000, 4, 0})
	text, err := json.Marshal(ts)
	require.NoError(t, err)
	for _, ranks := range []string{"gp", "pg", "gpp", "pgg", "pgp", "gpgp", "ppgp", "gpgpg", "pgppp"} {
		for conns := 1; conns <= 2; conns++ {
			t.Run(fmt.Sprintf("%s over %d", ranks, conns), func(t *testing.T) {
				n := len(ranks)
				nodes := addresses(t, n, conns)
				file := filepath.Join(t.TempDir(), "nodes.json")
				data, err := json.Marshal(nodes)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(file, data, 0o600))
				got := make([][]string, n)
				var wg sync.WaitGroup
				for r, kind := range ranks {
					env := append(os.Environ(), "MLX_HOSTFILE="+file, fmt.Sprintf("MLX_RANK=%d", r))
					if kind == 'p' {
						wg.Go(func() {
							cmd := exec.CommandContext(t.Context(), python, "testdata/rank.py", string(text))
							cmd.Env = env
							var stderr bytes.Buffer
							cmd.Stderr = &stderr
							out, err := cmd.Output()
							if err == nil {
								err = json.Unmarshal(out, &got[r])
							}
							if err != nil {
								t.Errorf("rank %d: %v\n%s", r, err, stderr.Bytes())
							}
						})
						continue
					}
					wg.Go(func() {
						m, err := ring.Connect(t.Context(), nodes, r, jaccl.Options{})
						if err != nil {
							t.Error(err)
							return
						}
						defer m.Close()
						for i, o := range append(ts, task{Op: "barrier", DType: "f32"}) {
							b, err := o.run(t.Context(), m.World(), i)
							if err != nil {
								t.Errorf("rank %d: %v", r, err)
								return
							}
							sum := sha256.Sum256(b)
							got[r] = append(got[r], hex.EncodeToString(sum[:]))
						}
					})
				}
				wg.Wait()
				for i, o := range ts {
					for r := range n {
						sum := sha256.Sum256(expected(o, n, conns, r))
						if i >= len(got[r]) || got[r][i] != hex.EncodeToString(sum[:]) {
							t.Fatalf("rank %d (%c): %+v is not what the ring's order gives", r, ranks[r], o)
						}
					}
				}
			})
		}
	}
}
