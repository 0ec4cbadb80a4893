//go:build linux || darwin

package shm

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/jaccl/link"
)

// roleVariable says that the process is a rank of a test of this package.
const roleVariable = "GOMOE_SHM_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(strings.Fields(role)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play runs a rank: its role, its rank, the number of ranks, and the role's arguments.
func play(words []string) error {
	rank, err := strconv.Atoi(words[1])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(words[2])
	if err != nil {
		return err
	}
	role := roles()[words[0]]
	if role == nil {
		return fmt.Errorf("no role %q", words[0])
	}
	return role(newPipeSite(os.NewFile(3, "hub"), rank, n), words[3:])
}

// pipeSite is a link.Site between processes: every process asks a hub, which answers all.
type pipeSite struct {
	rank, n int
	w       *gob.Encoder
	r       *gob.Decoder
}

type post struct {
	Key  string
	Data []byte
}

func newPipeSite(f io.ReadWriter, rank, n int) *pipeSite {
	return &pipeSite{rank, n, gob.NewEncoder(f), gob.NewDecoder(f)}
}

func (s *pipeSite) Rank() int            { return s.rank }
func (s *pipeSite) Size() int            { return s.n }
func (s *pipeSite) Host(rank int) string { return fmt.Sprintf("host%d", rank) }
func (s *pipeSite) SameHost(int) bool    { return true }
func (s *pipeSite) Gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	if err := s.w.Encode(post{key, mine}); err != nil {
		return nil, err
	}
	var all [][]byte
	err := s.r.Decode(&all)
	return all, err
}
func (s *pipeSite) Dial(context.Context, string) ([]net.Conn, error) {
	return nil, errors.New("no connections")
}

// process is a rank in a process of its own.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner // what it prints
	err   *strings.Builder
}

// processes starts ranks first to n-1 of a job and returns them by rank. It also returns
// the sites of the ranks below first, which live in the test's own process.
func processes(tb testing.TB, n, first int, env []string, role string, args ...string) ([]*process, []link.Site) {
	tb.Helper()
	ps, sites := make([]*process, n), make([]link.Site, first)
	hub := make([]*os.File, n)
	for rank := range n {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		require.NoError(tb, err)
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
		hub[rank] = os.NewFile(uintptr(fds[0]), "hub")
		theirs := os.NewFile(uintptr(fds[1]), "rank")
		if rank < first {
			tb.Cleanup(func() { theirs.Close() })
			sites[rank] = newPipeSite(theirs, rank, n)
			continue
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(append(os.Environ(), env...), fmt.Sprintf("%s=%s %d %d %s", roleVariable, role, rank, n, strings.Join(args, " ")))
		cmd.ExtraFiles = []*os.File{theirs}
		p := &process{cmd: cmd, err: &strings.Builder{}}
		cmd.Stderr = p.err
		out, err := cmd.StdoutPipe()
		require.NoError(tb, err)
		p.lines = bufio.NewScanner(out)
		require.NoError(tb, cmd.Start())
		theirs.Close()
		tb.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		ps[rank] = p
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		var to []*gob.Encoder
		var from []*gob.Decoder
		for _, f := range hub {
			to, from = append(to, gob.NewEncoder(f)), append(from, gob.NewDecoder(f))
		}
		for {
			all := make([][]byte, n)
			for rank, d := range from {
				var p post
				if d.Decode(&p) != nil {
					return
				}
				if all[rank] = p.Data; p.Data == nil {
					all[rank] = []byte{}
				}
			}
			for _, e := range to {
				if e.Encode(all) != nil {
					return
				}
			}
		}
	})
	tb.Cleanup(func() { // runs before the processes are killed
		for _, f := range hub {
			unix.Shutdown(int(f.Fd()), unix.SHUT_RDWR)
		}
		wg.Wait()
		for _, f := range hub {
			f.Close()
		}
	})
	return ps, sites
}

// line waits for the next line that the process prints.
func (p *process) line(tb testing.TB) string {
	tb.Helper()
	if !p.lines.Scan() {
		p.cmd.Wait()
		tb.Fatalf("process %d printed no further line; its errors: %s", p.cmd.Process.Pid, p.err)
	}
	return p.lines.Text()
}

// connectAll connects ranks that live in this process. They reserve little, unless the
// options say otherwise: emulators of processors need memory even for address space.
func connectAll(tb testing.TB, sites []link.Site, o Options) []*transport {
	tb.Helper()
	if o.Reserve == 0 {
		o.Reserve = 256 << 20
	}
	links, errs := make([]*transport, len(sites)), make([]error, len(sites))
	var wg sync.WaitGroup
	for i, s := range sites {
		wg.Go(func() {
			var l link.Link
			if l, errs[i] = Connect(context.Background(), s, o); errs[i] == nil {
				links[i] = l.(*transport)
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		require.NoError(tb, err, "rank %d", i)
		tb.Cleanup(func() {
			if err := links[i].Close(); err != nil {
				tb.Errorf("rank %d: %v", i, err)
			}
		})
	}
	return links
}
