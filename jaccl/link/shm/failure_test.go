//go:build linux || darwin

package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/link"
)

// roles are the programs of the processes that this package's tests start.
func roles() map[string]func(site link.Site, args []string) error {
	return map[string]func(link.Site, []string) error{
		"mirror":  mirror,
		"play":    playRole,
		"doomed":  doomed,
		"collect": collect,
	}
}

// playRole makes the exchanges of some plans in a process of its own.
func playRole(site link.Site, args []string) error {
	conn, err := Connect(context.Background(), site, Options{Dir: strings.Join(args, "")})
	if err != nil {
		return err
	}
	l := conn.(*transport)
	arena, err := l.Alloc(1 << 20)
	if err != nil {
		return err
	}
	for seed := range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := (plan{site.Size(), seed}).play(ctx, l, others(l.rank, site.Size()), seed%3 > 0, arena); err != nil {
			return fmt.Errorf("exchange %d: %w", seed, err)
		}
	}
	fmt.Println("done")
	return l.Close()
}

func TestProcesses(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		ps, _ := processes(t, 3, 0, nil, "play", dir)
		for rank, p := range ps {
			if got := p.line(t); got != "done" {
				t.Errorf("rank %d: %s", rank, got)
			}
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("rank %d: %v: %s", rank, err, p.err)
			}
		}
	}
}

// doomed runs exchanges until one fails, and prints the error. Rank 1 may stop coming.
// Arguments: the folder or "-", whether rank 1 goes on, what ends each exchange.
func doomed(site link.Site, args []string) error {
	o := Options{}
	if args[0] != "-" {
		o.Dir = args[0]
	}
	limit, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	l, err := Connect(context.Background(), site, o)
	if err != nil {
		return err
	}
	r, err := newRounds(l, 3<<20, false)
	if err != nil {
		return err
	}
	for i := 0; err == nil; i++ {
		if i == 3 {
			fmt.Println("running")
			if args[1] == "stays" && l.Rank() == 1 {
				select {}
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		err = l.Exchange(ctx, &r.x)
		cancel()
	}
	var lost *link.PeerError
	if errors.As(err, &lost) {
		fmt.Printf("peer %d: %v\n", lost.Peer, err)
	} else {
		fmt.Println(err)
	}
	return l.Close()
}

// A rank that is killed, during an exchange or while the others wait for it, leaves nothing
// behind. The link does not notice; contexts end the exchanges of the others.
func TestKill(t *testing.T) {
	for _, goes := range []string{"on", "stays"} {
		for _, dir := range []string{"-", t.TempDir()} {
			t.Run(goes+" "+filepath.Base(dir), func(t *testing.T) {
				ps, _ := processes(t, 3, 0, nil, "doomed", dir, goes, "1s")
				for _, p := range ps {
					require.Equal(t, "running", p.line(t))
				}
				if goes == "stays" {
					time.Sleep(20 * time.Millisecond) // the others sleep by then
				}
				require.NoError(t, ps[1].cmd.Process.Kill())
				contextsEnd(t, ps)
				for _, p := range ps { // the dead process, too, is waited for only now
					p.cmd.Wait()
				}
				left, err := filepath.Glob("/dev/shm/*gomoe*")
				require.NoError(t, err)
				require.Empty(t, left)
				if dir != "-" {
					entries, err := os.ReadDir(dir)
					require.NoError(t, err)
					require.Empty(t, entries)
				}
			})
		}
	}
}

// A rank that is stopped is not dead: contexts end the exchanges of the others.
func TestStop(t *testing.T) {
	ps, _ := processes(t, 3, 0, nil, "doomed", "-", "on", "2s")
	for _, p := range ps {
		require.Equal(t, "running", p.line(t))
	}
	require.NoError(t, ps[1].cmd.Process.Signal(syscall.SIGSTOP))
	contextsEnd(t, ps)
	require.NoError(t, ps[1].cmd.Process.Kill())
}

// contextsEnd checks that the exchanges of ranks 0 and 2 end with their contexts. The rank whose
// exchange ends first closes its link, and the other rank may see that.
func contextsEnd(t *testing.T, ps []*process) {
	t.Helper()
	ends := 0
	for _, rank := range []int{0, 2} {
		switch got := ps[rank].line(t); got {
		case context.DeadlineExceeded.Error():
			ends++
		case fmt.Sprintf("peer %d: shm: rank %[1]d on host%[1]d has closed its link", 2-rank):
		default:
			t.Errorf("rank %d: %s", rank, got)
		}
	}
	require.NotZero(t, ends)
}

// startOf tells when a process started, and whether it runs.
func TestLife(t *testing.T) {
	me, err := self()
	require.NoError(t, err)
	start, running, err := startOf(me.pid)
	require.NoError(t, err)
	require.True(t, running)
	require.Equal(t, me.start, start)
	_, running, err = startOf(1 << 30)
	require.NoError(t, err)
	require.False(t, running)
}
