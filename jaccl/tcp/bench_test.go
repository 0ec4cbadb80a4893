package tcp

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/meet"
)

// TestMain is also the program of the other ranks of the benchmarks.
func TestMain(m *testing.M) {
	if at := os.Getenv("GOMOE_TEST_TCP"); at != "" {
		if err := other(at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// other is a rank that does what rank 0 says on the standard input: an operation,
// bytes and a number of times, line by line.
func other(at string) error {
	f := strings.Fields(at)
	rank, _ := strconv.Atoi(f[1])
	size, _ := strconv.Atoi(f[2])
	secret, err := hex.DecodeString(f[3])
	if err != nil {
		return err
	}
	l, err := member(context.Background(), meet.Options{Rank: rank, Size: size, Coordinator: f[0], Secret: secret, Job: uuid.Nil})
	if err != nil {
		return err
	}
	defer l.Close()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var op string
		var n, times int
		if _, err := fmt.Sscan(in.Text(), &op, &n, &times); err != nil {
			return err
		}
		work := operation(l, op, n)
		for range times {
			if err := work(); err != nil {
				return err
			}
		}
	}
	return in.Err()
}

func member(ctx context.Context, o meet.Options) (jaccl.Link, error) {
	p, err := meet.Join(ctx, o)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return Connect(ctx, p)
}

// operation returns what the engine of collectives makes of links: one exchange
// with heads, and for a large sum another one without.
func operation(l jaccl.Link, op string, bytes int) func() error {
	head := make([]byte, 100)
	peers := others(l)
	n := l.Size()
	exchange := func(head []byte, send, recv [][][]byte) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		x := &jaccl.Exchange{Peers: peers, Head: head, Send: send, Recv: recv}
		if head != nil {
			x.Heads = func([][]byte) error { return nil }
		}
		return l.Exchange(ctx, x)
	}
	all := func(size int) (bufs [][][]byte) {
		for range peers {
			bufs = append(bufs, [][]byte{make([]byte, size)})
		}
		return bufs
	}
	part := bytes / n
	send, recv := all(part), all(part)
	switch {
	case op == "alltoall":
		return func() error { return exchange(head, send, recv) }
	case bytes <= 32<<10: // sum: everybody sends all
		send, recv = all(bytes), all(bytes)
		mine := make([]float32, bytes/4)
		return func() error {
			err := exchange(head, send, recv)
			for range recv {
				add(mine, mine)
			}
			return err
		}
	}
	mine := make([]float32, part/4)
	return func() error { // scatter the sums, then gather them
		if err := exchange(head, send, recv); err != nil {
			return err
		}
		for range recv {
			add(mine, mine)
		}
		return exchange(nil, send, recv)
	}
}

func add(a, b []float32) {
	for i, v := range b {
		a[i] += v
	}
}

// mesh is rank 0's link to processes that run beside it.
type mesh struct {
	jaccl.Link
	in []io.Writer
}

func processes(t testing.TB, n int) *mesh {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	secret := []byte("a secret of a benchmark")
	m := &mesh{}
	var started []*exec.Cmd
	for r := 1; r < n; r++ {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOMOE_TEST_TCP=%s %d %d %x", ln.Addr(), r, n, secret))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		started, m.in = append(started, cmd), append(m.in, in)
		t.Cleanup(func() { in.Close() })
	}
	m.Link, err = member(t.Context(), meet.Options{Size: n, Listener: ln, Secret: secret})
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, in := range m.in {
			in.(io.Closer).Close()
		}
		for _, cmd := range started {
			if err := cmd.Wait(); err != nil {
				t.Errorf("a rank ended with %v", err)
			}
		}
		m.Close()
	})
	return m
}

func (m *mesh) start(op string, bytes, times int) error {
	for _, in := range m.in {
		if _, err := fmt.Fprintln(in, op, bytes, times); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkProcesses measures two to four ranks in processes of their own: bytes
// is the vector of a sum, and what a rank sends in an all-to-all, its own part
// among it. min is the shortest of batches.
func BenchmarkProcesses(b *testing.B) {
	for _, n := range []int{2, 4} {
		for _, op := range []string{"alltoall", "allsum"} {
			for _, bytes := range []int{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
				b.Run(fmt.Sprintf("%s/ranks=%d/bytes=%d", op, n, bytes), func(b *testing.B) {
					m := processes(b, n)
					work := operation(m, op, bytes)
					batch := max(8, min(b.N, (2<<20)/bytes))
					var times []float64
					require.NoError(b, m.start(op, bytes, b.N))
					b.ResetTimer()
					for done := 0; done < b.N; {
						k := min(batch, b.N-done)
						start := time.Now()
						for range k {
							if err := work(); err != nil {
								b.Fatal(err)
							}
						}
						times = append(times, float64(time.Since(start).Microseconds())/float64(k))
						done += k
					}
					b.StopTimer()
					slices.Sort(times)
					b.ReportMetric(times[0], "min-us")
					b.ReportMetric(times[len(times)/2], "median-us")
				})
			}
		}
	}
}

// BenchmarkExchange is an exchange of heads alone, by two goroutines.
func BenchmarkExchange(b *testing.B) {
	for name, move := range movers() {
		b.Run(name, func(b *testing.B) {
			ls := links(b, 2, move)
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for _, l := range ls {
				wg.Go(func() {
					x := &jaccl.Exchange{Peers: others(l), Head: make([]byte, 100)}
					for range b.N {
						if err := l.Exchange(context.Background(), x); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
