package mpi

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/dynlib"
	"github.com/gomoe/gomoe/jaccl/link"
)

func TestCandidates(t *testing.T) {
	for _, c := range []struct {
		env   map[string]string
		first string
		not   string // a name that is not tried
		why   string
	}{
		{map[string]string{"MLX_MPI_LIBNAME": "other", "PMI_SIZE": "2"}, "other", "libmpi.so", "named by MLX_MPI_LIBNAME"},
		{map[string]string{"OMPI_COMM_WORLD_SIZE": "2", "PMI_SIZE": "2"}, "libmpi.so.40", "libmpich.so.12", "Open MPI, whose mpirun"},
		{map[string]string{"PMI_SIZE": "2"}, "libmpi.so.12", "libmpi.so.40", "MPICH, whose mpiexec"},
		{map[string]string{"PMI_SIZE": "2", "SLURM_STEP_ID": "0"}, "libmpi.so.12", "other", "srun started this process"},
		{map[string]string{"PMIX_RANK": "1", "SLURM_STEP_ID": "0"}, "libmpi.so.40", "other", "srun started this process"},
		{map[string]string{"PMI_SIZE": "2", "MPI_LOCALNRANKS": "2", "SLURM_STEP_ID": "0"}, "libmpi.so.12", "libmpi.so.40", "MPICH, whose mpiexec"},
		{map[string]string{"OMPI_COMM_WORLD_SIZE": "2", "SLURM_STEP_ID": "0"}, "libmpi.so.40", "libmpich.so.12", "Open MPI, whose mpirun"},
		{nil, "libmpi.so.40", "other", "no mpirun started this process"},
	} {
		names, why := candidates(func(name string) string { return c.env[name] })
		first := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(names[0], "libmpi.40.dylib", "libmpi.so.40"), "libmpi.12.dylib", "libmpi.so.12"), "libmpi.dylib", "libmpi.so")
		if first != c.first || slices.Contains(names, c.not) || !strings.Contains(why, c.why) {
			t.Errorf("%v: %q, %s; want %s first, without %s, %s", c.env, names, why, c.first, c.not, c.why)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libmpi.so")
	require.NoError(t, os.WriteFile(text, []byte("no library"), 0o600))
	library := func(path string) func(string) string {
		return func(name string) string { return map[string]string{"MLX_MPI_LIBNAME": path}[name] }
	}
	for _, c := range []struct {
		opts Options
		want []string
	}{
		{Options{Getenv: library("/nowhere/libmpi.so")}, []string{"mpi: no MPI library, named by MLX_MPI_LIBNAME: tried /nowhere/libmpi.so (", "install one", "MLX_MPI_LIBNAME"}},
		{Options{Getenv: library(text)}, []string{"tried " + text, "install one"}},
		{Options{Deadline: -1}, []string{"deadline -1ns, want 0"}},
	} {
		w, err := Open(c.opts)
		if err == nil {
			t.Fatalf("%v opened %v", c.opts, w)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q in it", err, want)
			}
		}
	}
}

// A library that is no MPI says what it lacks, and what is no MPI that is known what
// it says of itself.
func TestABI(t *testing.T) {
	none := func(string) (uintptr, error) { return 0, errors.New("no such symbol") }
	some := func(name string) (uintptr, error) { return uintptr(len(name)), nil }
	a, err := abiOf("Open MPI v5.0.7, package", some)
	require.NoError(t, err)
	if a.handleBytes != 8 || a.world != handle(len("ompi_mpi_comm_world")) || a.bytes != handle(len("ompi_mpi_byte")) {
		t.Errorf("%+v, want Open MPI's", a)
	}
	for _, version := range []string{"MPICH Version:\t4.0.2\nMPICH Release", "Intel(R) MPI Library 2021.10", "MVAPICH2 Version: 2.3.7"} {
		if a, err := abiOf(version, none); err != nil || a.handleBytes != 4 || a.statusBytes != 20 {
			t.Errorf("%s: %+v, %v, want MPICH's ABI", version, a, err)
		}
	}
	for version, want := range map[string]string{"Open MPI v4": "has no ompi_", "HP MPI\x00": `"HP MPI", want Open MPI or one of the family of MPICH`} {
		if _, err := abiOf(version, none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", version, err, want)
		}
	}
}

func TestNoMPI(t *testing.T) {
	lib, err := dynlib.Open("libm.so.6")
	if err != nil {
		t.Skipf("no libm.so.6, which glibc has: run under a Linux of glibc: %v", err)
	}
	if err := new(library).bind("libm.so.6", lib); err == nil || !strings.Contains(err.Error(), "it is no MPI 3: no ") || !strings.Contains(err.Error(), "MPI_Testsome") {
		t.Errorf("%v, want what libm lacks", err)
	}
}

// Handlers that a library has replaced are put back.
func TestSignals(t *testing.T) {
	before := handlers()
	set, err := dynlib.C("signal")
	if err != nil {
		t.Skipf("no function signal of a C library, which glibc has: run under a Linux of glibc: %v", err)
	}
	const ignore = 1                    // SIG_IGN
	for _, sig := range []int{10, 12} { // nobody sends them here
		call(set, uintptr(sig), ignore)
	}
	if slices.EqualFunc(handlers().actions[:], before.actions[:], bytes.Equal) {
		t.Fatal("the handlers did not change")
	}
	before.restore()
	for sig, b := range handlers().actions {
		// The C library notes in the flags who gave it the handler.
		if !bytes.Equal(b[:min(8, len(b))], before.actions[sig][:min(8, len(b))]) {
			t.Errorf("signal %d has another handler", sig)
		}
	}
	if err := recovers(); err != nil {
		t.Error(err)
	}
}

// recovers checks that a nil dereference is a panic still.
func recovers() (err error) {
	defer func() {
		if recover() == nil {
			err = errors.New("a nil dereference was no panic")
		}
	}()
	var p *int
	*p++
	return nil
}

// A code that MPI returns is an error with MPI's words.
func TestCodes(t *testing.T) {
	w := alone(t)
	_, err := newLink(w, 0, []peer{{}, {to: 99}})
	var e *Error
	if !errors.As(err, &e) || e.Function != "MPI_Irecv" || !strings.Contains(strings.ToLower(e.Text), "rank") {
		t.Errorf("%v, want the error of MPI_Irecv about a rank", err)
	}
	l, err := newLink(w, 0, []peer{{}, {to: 0, out: 6*tagKinds + maxTag/2, in: 7*tagKinds + maxTag/2}})
	require.NoError(t, err)
	l.peers[1].to = 98
	err = l.Exchange(t.Context(), &link.Exchange{Peers: []int{1}, Send: [][][]byte{{{1, 2}, {3}}}})
	if !errors.As(err, &e) || e.Function != "MPI_Isend" {
		t.Errorf("%v, want the error of MPI_Isend", err)
	}
	if again := l.Exchange(t.Context(), &link.Exchange{}); again == nil || !errors.Is(again, err) {
		t.Errorf("after a failed exchange: %v, want its error", again)
	}
	l.peers[1].to = 0
	require.NoError(t, l.Close())
}

// Data of another length than is expected is an error, and is not written: what MPI
// does with too much is its own affair.
func TestLengths(t *testing.T) {
	w := alone(t)
	for k, n := range []int{0, 3, 5, 5000, messageBytes + 1} {
		for _, heads := range []bool{true, false} {
			if !heads && (n == 0 || n > 4) {
				continue
			}
			base := maxTag/2 + 100 + (4*k+2)*tagKinds
			if heads {
				base += 2 * tagKinds
			}
			a, err := newLink(w, 0, []peer{{}, {out: base, in: base + tagKinds}})
			require.NoError(t, err)
			b, err := newLink(w, 1, []peer{{out: base + tagKinds, in: base}, {}})
			require.NoError(t, err)
			x := link.Exchange{Peers: []int{1}, Send: [][][]byte{{make([]byte, n)}}}
			around := bytes.Repeat([]byte{7}, 10000)
			y := link.Exchange{Peers: []int{0}, Recv: [][][]byte{{around[5000:5004]}}}
			if heads {
				x.Head, x.Heads = []byte{}, func([][]byte) error { return nil }
				y.Head, y.Heads = x.Head, x.Heads
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			var wg sync.WaitGroup
			wg.Go(func() { _ = a.Exchange(ctx, &x) }) // with or without success: that is for the other side to say
			err = b.Exchange(ctx, &y)
			if err == nil || ctx.Err() != nil {
				t.Errorf("%d bytes came where 4 were expected: %v, want an error about that", n, err)
			}
			if heads && bytes.Count(around, []byte{7}) != len(around) {
				t.Errorf("%d bytes came where 4 were expected, and were written", n)
			}
			cancel()
			wg.Wait()
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		}
	}
}

func TestOpenTwice(t *testing.T) {
	alone(t)
	if _, err := Open(Options{}); err == nil || !strings.Contains(err.Error(), "open one World per process") {
		t.Errorf("%v, want that it is open", err)
	}
}

func TestMessages(t *testing.T) {
	big := make([]byte, 2*messageBytes+5)
	for name, bufs := range map[string][][]byte{
		"none": nil, "nothing": {nil, {}}, "one": {big[:1]}, "exact": {big[:messageBytes]}, "two": {big[:messageBytes-1], big[:2]},
		"cut": {big[:3], nil, big[:messageBytes], big}, "whole": {big},
	} {
		total, n := 0, 0
		for _, b := range bufs {
			total += len(b)
		}
		ms := messages(bufs)
		for i, m := range ms {
			length := 0
			for _, b := range m {
				if len(b) == 0 {
					t.Errorf("%s: an empty part", name)
				}
				length += len(b)
			}
			if want := min(messageBytes, total-n); length != want {
				t.Errorf("%s: message %d has %d bytes, want %d", name, i, length, want)
			}
			n += length
		}
		if n != total || len(ms) != (total+messageBytes-1)/messageBytes {
			t.Errorf("%s: %d messages of %d bytes, want %d", name, len(ms), n, total)
		}
	}
	// The parts lie where the buffers do.
	if m := messages([][]byte{big[:5], big[7:]}); unsafe.SliceData(m[0][1]) != &big[7] {
		t.Error("a part is a copy")
	}
}
