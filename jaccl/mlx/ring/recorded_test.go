package ring_test

import (
	"compress/bzip2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/mlx/ring"
)

// recording is what testdata/record.py writes.
type recording struct {
	MLX  string
	Jobs []struct {
		Ranks, Rank int
		Ops         []task
		Results     []string
		Left, Right []stream
	}
}

type stream struct {
	In   string // base64
	Out  string // SHA-256
	Sent int64
}

// This rank takes the place of one of MLX's: it is given what that one was given,
// and sends what that one sent, byte for byte, and has its results.
func TestRecorded(t *testing.T) {
	f, err := os.Open("testdata/recorded.json.bz2")
	require.NoError(t, err)
	defer f.Close()
	var rec recording
	require.NoError(t, json.NewDecoder(bzip2.NewReader(f)).Decode(&rec))
	require.NotEmpty(t, rec.Jobs)
	for _, job := range rec.Jobs {
		t.Run(fmt.Sprintf("%d of %d over %d", job.Rank, job.Ranks, len(job.Left)), func(t *testing.T) {
			nodes := addresses(t, job.Ranks, len(job.Left))
			var wg sync.WaitGroup
			defer wg.Wait()
			replay := func(side string, i int, s stream, c net.Conn) {
				defer c.Close()
				in, err := base64.StdEncoding.DecodeString(s.In)
				if err != nil {
					t.Error(err)
				}
				wg.Go(func() {
					if _, err := c.Write(in); err != nil {
						t.Errorf("%s %d: %v", side, i, err)
					}
				})
				h := sha256.New()
				n, err := io.Copy(h, c)
				if err != nil || n != s.Sent {
					t.Errorf("%s %d: sent %d bytes, MLX sent %d (%v)", side, i, n, s.Sent, err)
				}
				if sum := hex.EncodeToString(h.Sum(nil)); sum != s.Out {
					t.Errorf("%s %d: sent other bytes than MLX", side, i)
				}
			}
			after := (job.Rank + 1) % job.Ranks
			for i, s := range job.Right {
				l, err := net.Listen("tcp", nodes[after][i])
				require.NoError(t, err)
				wg.Go(func() {
					defer l.Close()
					c, err := l.Accept()
					if err != nil {
						t.Error(err)
						return
					}
					replay("right", i, s, c)
				})
			}
			dialed := make(chan struct{})
			wg.Go(func() {
				defer close(dialed)
				for i, s := range job.Left {
					c := dial(t, nodes[job.Rank][i])
					if c == nil {
						return
					}
					wg.Go(func() { replay("left", i, s, c) })
				}
			})
			m, err := ring.Connect(t.Context(), nodes, job.Rank, jaccl.Options{})
			<-dialed
			require.NoError(t, err)
			defer m.Close()
			for i, o := range append(job.Ops, task{Op: "barrier", DType: "f32"}) {
				got, err := o.run(t.Context(), m.World(), i)
				require.NoError(t, err)
				sum := sha256.Sum256(got)
				if i < len(job.Ops) && hex.EncodeToString(sum[:]) != job.Results[i] {
					t.Errorf("%+v: another result than that of MLX %s", o, rec.MLX)
				}
			}
		})
	}
}

// addresses returns free ones of this machine.
func addresses(t *testing.T, n, conns int) hostfile.Nodes {
	t.Helper()
	nodes := make(hostfile.Nodes, n)
	for r := range nodes {
		for range conns {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			nodes[r] = append(nodes[r], l.Addr().String())
		}
	}
	return nodes
}
