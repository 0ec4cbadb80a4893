package tcp

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/job/meet"
)

// TestMain also runs the ranks that are processes of their own.
func TestMain(m *testing.M) {
	if at := os.Getenv("GOMOE_TEST_TCP"); at != "" {
		if err := other(at); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// other is a rank that does what rank 0 says on the standard input. Each line has an
// operation, a size or seed, and a number of times.
func other(at string) error {
	f := strings.Fields(at)
	rank, _ := strconv.Atoi(f[1])
	size, _ := strconv.Atoi(f[2])
	secret, err := hex.DecodeString(f[3])
	if err != nil {
		return err
	}
	c, err := communicator(context.Background(), meet.Options{Rank: rank, Size: size, Coordinator: f[0], Secret: secret, Host: fmt.Sprint("host", rank)})
	if err != nil {
		return err
	}
	defer c.Close()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var op string
		var n, times int
		if _, err := fmt.Sscan(in.Text(), &op, &n, &times); err != nil {
			return err
		}
		work := operation(c, op, n)
		for range times {
			if err := work(); err != nil {
				return err
			}
		}
	}
	return in.Err()
}

// operation returns an operation that all ranks call.
func operation(c jaccl.Communicator, op string, n int) func() error {
	ctx := context.Background()
	call := collective.Call{Op: op, DType: graph.F32, Bytes: int64(n)}
	g := c.World()
	switch op {
	case "play":
		return func() error { return jaccltest.PlayRank(ctx, c, uint64(n)) }
	case "all_sum":
		dst, src := make([]byte, n), make([]byte, n)
		return func() error { return g.AllSum(ctx, call, dst, src) }
	case "all_to_all":
		dst, src := make([][]byte, c.Size()), make([][]byte, c.Size())
		for i := range dst {
			dst[i], src[i] = make([]byte, n/c.Size()), make([]byte, n/c.Size())
		}
		return func() error { return g.AllToAll(ctx, call, dst, src) }
	}
	return func() error { return errors.New("no operation " + op) }
}

// job is rank 0 in this process, with the processes of the other ranks.
type job struct {
	jaccl.Communicator
	cmds []*exec.Cmd
	in   []io.WriteCloser
	out  []*bufio.Scanner
}

func processes(t testing.TB, n int) *job {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	secret := []byte("a secret of a test")
	j := &job{}
	for r := 1; r < n; r++ {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOMOE_TEST_TCP=%s %d %d %x", ln.Addr(), r, n, secret))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		j.cmds, j.in, j.out = append(j.cmds, cmd), append(j.in, in), append(j.out, bufio.NewScanner(out))
		t.Cleanup(func() {
			in.Close()
			timer := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
			defer timer.Stop()
			cmd.Wait()
		})
	}
	j.Communicator, err = communicator(context.Background(), meet.Options{Size: n, Listener: ln, Secret: secret, Host: "host0"})
	require.NoError(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

// say tells the other ranks what to do.
func (j *job) say(t testing.TB, op string, n, times int) {
	t.Helper()
	for _, in := range j.in {
		_, err := fmt.Fprintln(in, op, n, times)
		require.NoError(t, err)
	}
}

// All operations, among processes.
func TestProcesses(t *testing.T) {
	j := processes(t, 3)
	for seed := range 3 {
		j.say(t, "play", seed, 1)
		if err := operation(j.Communicator, "play", seed)(); err != nil {
			t.Fatal(err)
		}
	}
	for i, cmd := range j.cmds {
		require.NoError(t, j.in[i].Close())
		if j.out[i].Scan() {
			t.Errorf("rank %d says %q", i+1, j.out[i].Text())
		}
		require.NoError(t, cmd.Wait())
	}
}

// If a process is killed in the middle of a collective, every other rank gets an error
// at once, which names the killed rank.
func TestKilled(t *testing.T) {
	for _, size := range []int{1 << 10, 8 << 20} {
		j := processes(t, 3)
		j.say(t, "all_sum", size, 1<<30)
		work := operation(j.Communicator, "all_sum", size)
		timer := time.AfterFunc(200*time.Millisecond, func() {
			j.cmds[1].Process.Kill()
		})
		defer timer.Stop()
		var err error
		for err == nil {
			err = work()
		}
		const want = "rank 2 (host2) ended without a word"
		var e *jaccl.Error
		if !errors.As(err, &e) || !errors.Is(err, jaccl.ErrLost) || !slices.Equal(e.Blame, []int{2}) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v, want %q", size, err, want)
		}
		if !j.out[0].Scan() || !strings.Contains(j.out[0].Text(), want) {
			t.Errorf("%d bytes: rank 1 says %q, want %q", size, j.out[0].Text(), want)
		}
	}
}
