//go:build (linux || darwin) && (amd64 || arm64)

package mpi

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

// controlVar names the socket at which ranks of the program far are told what to do.
const controlVar = "GOMOE_TEST_MPI_CONTROL"

// TestConformance is the whole suite on ranks that are processes of mpirun's. A process
// opens job after job, until one fails: MPI keeps what it has begun then. There is no
// case of the suite that MPI cannot do.
func TestConformance(t *testing.T) {
	if _, err := exec.LookPath(launcher()); err != nil {
		t.Skipf("no %s (Debian: apt-get install openmpi-bin)", launcher())
	}
	f := &fleets{t: t, idle: map[int]chan *fleet{}, all: map[int]int{}}
	defer f.close()
	jaccltest.Conformance(t, f.open)
}

// fleets are processes that wait for jobs. Where jobs fail, which costs their processes,
// others have been started meanwhile.
type fleets struct {
	t    *testing.T
	idle map[int]chan *fleet // by number of ranks
	all  map[int]int         // how many fleets there are, or will be
	ends sync.WaitGroup      // of those whose job has failed
}

// spare is how many fleets wait when one has failed: to start and to end one takes
// longer than most jobs.
const spare = 3

// open returns the communicators of a new job of n ranks.
func (f *fleets) open(t *testing.T, n int) []jaccl.Communicator {
	t.Helper()
	if f.idle[n] == nil {
		f.idle[n] = make(chan *fleet, spare)
		f.start(n)
	}
	var ranks *fleet
	select {
	case ranks = <-f.idle[n]:
	case <-time.After(time.Minute):
		t.Fatalf("%d ranks have not started", n)
	}
	require.NoError(t, ranks.err)
	comms, errs := make([]jaccl.Communicator, n), make([]error, n)
	t.Cleanup(func() {
		clean := true
		for _, r := range ranks.fars {
			clean = r.Clean() && clean
		}
		if clean {
			f.idle[n] <- ranks
			return
		}
		f.ends.Go(func() { ranks.end() })
		f.all[n]--
		for f.all[n] < spare {
			f.start(n)
		}
	})
	var wg sync.WaitGroup
	for i, r := range ranks.fars {
		wg.Go(func() { comms[i], errs[i] = r.Open() })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return comms
}

// start starts a fleet, which is idle when it is there.
func (f *fleets) start(n int) {
	f.all[n]++
	at := filepath.Join(f.t.TempDir(), "control")
	go func() { f.idle[n] <- started(n, at) }()
}

// close ends all fleets, which have nothing to do.
func (f *fleets) close() {
	f.ends.Wait()
	for n, idle := range f.idle {
		for range f.all[n] {
			select {
			case ranks := <-idle:
				if ranks.err != nil {
					f.t.Errorf("%d ranks: %v", n, ranks.err)
					continue
				}
				f.ends.Go(func() {
					if status := ranks.end(); status != 0 {
						f.t.Errorf("%d ranks that have nothing left to do end with status %d:\n%s", n, status, ranks.output.String())
					}
				})
			case <-time.After(time.Minute):
				f.t.Errorf("%d ranks have not started", n)
			}
		}
	}
	f.ends.Wait()
}

// fleet is ranks of one mpirun.
type fleet struct {
	fars   []*jaccltest.Far // by rank
	conns  []net.Conn
	cmd    *exec.Cmd
	output output
	err    error // why there are none
}

// started starts a fleet that is told what to do at a socket.
func started(n int, at string) *fleet {
	f := &fleet{fars: make([]*jaccltest.Far, n)}
	ln, err := net.Listen("unix", at)
	if f.err = err; err != nil {
		return f
	}
	defer ln.Close()
	ln.(*net.UnixListener).SetDeadline(time.Now().Add(time.Minute))
	args := []string{"-np", strconv.Itoa(n), os.Args[0]}
	if !hydra() {
		args = append([]string{"--oversubscribe"}, args...)
	}
	f.cmd = exec.Command(launcher(), args...)
	f.cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", programVar+"=far", controlVar+"="+at, "GOMAXPROCS=1")
	f.cmd.Stdout, f.cmd.Stderr = &f.output, &f.output
	f.cmd.WaitDelay = 5 * time.Second
	if f.err = f.cmd.Start(); f.err != nil {
		return f
	}
	for range n {
		conn, err := ln.Accept()
		var rank [1]byte
		if err == nil {
			f.conns = append(f.conns, conn)
			_, err = conn.Read(rank[:])
		}
		if f.err = err; err != nil {
			f.end()
			return f
		}
		f.fars[rank[0]] = jaccltest.NewFar(conn)
	}
	return f
}

// end lets the ranks end, and returns mpirun's status.
func (f *fleet) end() int {
	for _, c := range f.conns {
		c.Close()
	}
	kill := time.AfterFunc(20*time.Second, func() { f.cmd.Process.Kill() })
	defer kill.Stop()
	f.cmd.Wait()
	return f.cmd.ProcessState.ExitCode()
}

// output is what processes print.
type output struct {
	mu sync.Mutex
	b  []byte
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.b) < 1<<16 {
		o.b = append(o.b, b...)
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.b)
}

// farProgram has a rank do what the test asks for. One whose job has failed ends at
// once, as MPI cannot be finalized.
func farProgram(ctx context.Context, w *World) error {
	conn, err := net.Dial("unix", os.Getenv(controlVar))
	if err != nil {
		return err
	}
	if _, err := conn.Write([]byte{byte(w.Rank())}); err != nil {
		return err
	}
	err = jaccltest.Serve(conn, func() (jaccl.Communicator, error) { return communicator(ctx, w, 0) }, func() bool { return w.usable() == nil })
	if err == nil && w.usable() != nil {
		os.Exit(1)
	}
	return err
}
