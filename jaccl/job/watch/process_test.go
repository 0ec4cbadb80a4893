package watch

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/job/meet"
	"github.com/gomoe/gomoe/jaccl/link"
)

// TestMain also runs the ranks that are processes of their own.
func TestMain(m *testing.M) {
	if at := os.Getenv("GOMOE_TEST_WATCH"); at != "" {
		if err := member(at); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// member is a rank that prints its state: "up", "down" with the failure's text, "left".
func member(at string) error {
	f := strings.Fields(at)
	rank, _ := strconv.Atoi(f[1])
	size, _ := strconv.Atoi(f[2])
	secret, _ := hex.DecodeString(f[3])
	silence, _ := time.ParseDuration(f[4])
	p, err := meet.Join(context.Background(), meet.Options{Rank: rank, Size: size, Coordinator: f[0], Secret: secret, Host: fmt.Sprint("host", rank)})
	if err != nil {
		return err
	}
	w, err := Start(context.Background(), p, Options{Silence: silence})
	if err != nil {
		return err
	}
	p.Close()
	fmt.Println("up")
	leave := make(chan struct{})
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		close(leave)
	}()
	select {
	case <-w.Down():
		n, _ := w.First()
		fmt.Println("down", n.Kind, n.Text)
	case <-leave:
		fmt.Println("left")
	}
	return w.Close()
}

// job is this process as rank 0 and others beside it.
type job struct {
	w    *Watch
	cmds []*exec.Cmd // of ranks 1 and on
	out  []*bufio.Scanner
	in   []*os.File
}

func processes(t *testing.T, n int, silence time.Duration) *job {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	j := &job{}
	for r := 1; r < n; r++ {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOMOE_TEST_WATCH=%s %d %d 736563726574 %v", ln.Addr(), r, n, silence))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		in, w, err := os.Pipe()
		require.NoError(t, err)
		cmd.Stdin = in
		require.NoError(t, cmd.Start())
		in.Close()
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
			w.Close()
		})
		j.cmds, j.out, j.in = append(j.cmds, cmd), append(j.out, bufio.NewScanner(out)), append(j.in, w)
	}
	p, err := meet.Join(t.Context(), meet.Options{Size: n, Listener: ln, Secret: []byte("secret"), Host: "host0"})
	require.NoError(t, err)
	defer p.Close()
	j.w, err = Start(t.Context(), p, Options{Silence: silence})
	require.NoError(t, err)
	t.Cleanup(func() { j.w.Close() })
	for r := range j.out {
		j.expect(t, r+1, "up")
	}
	return j
}

// expect reads what a rank says next.
func (j *job) expect(t *testing.T, rank int, want string) {
	t.Helper()
	if s := j.out[rank-1]; !s.Scan() || s.Text() != want {
		t.Errorf("rank %d says %q, %v, want %q", rank, s.Text(), s.Err(), want)
	}
}

// If a process is killed, all others know at once, and their failure names it.
func TestKilled(t *testing.T) {
	j := processes(t, 4, defaultSilence)
	require.NoError(t, j.cmds[1].Process.Kill())
	n := down(t, j.w)
	if n.Kind != link.KindLost || !slices.Equal(n.Blame, []int{2}) || n.Text != "rank 2 (host2) ended without a word" {
		t.Errorf("%+v", n)
	}
	for _, r := range []int{1, 3} {
		j.expect(t, r, fmt.Sprint("down ", link.KindLost, " rank 2 (host2) ended without a word"))
	}
}

// It is no failure if a process ends after it has left.
func TestLeft(t *testing.T) {
	j := processes(t, 3, defaultSilence)
	require.NoError(t, j.in[1].Close())
	j.expect(t, 2, "left")
	require.NoError(t, j.cmds[1].Wait())
	up(t, j.w, 300*time.Millisecond)
	if !j.w.Left(2) || j.w.Left(1) {
		t.Errorf("rank 2 left: %v, rank 1: %v, want only rank 2", j.w.Left(2), j.w.Left(1))
	}
	require.NoError(t, j.in[0].Close())
	j.expect(t, 1, "left")
	up(t, j.w, 300*time.Millisecond)
}
