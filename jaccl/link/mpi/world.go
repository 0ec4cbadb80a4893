package mpi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
	"unsafe"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/meet"
	"github.com/gomoe/gomoe/jaccl/link"
)

// threadSerialized is MPI_THREAD_SERIALIZED: any thread may call, one at a time.
const threadSerialized = 2

// maxGather is the most bytes that one rank passes to a gather.
const maxGather = 2 << 20

// Options are the settings of a World. The zero Options are usable.
type Options struct {
	// Deadline is the time that ranks wait for each other in Open, Gather, Dial and Close;
	// 0 means jaccl.DefaultDeadline.
	Deadline time.Duration
	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string
}

// World is this process's place among the ranks that MPI's launcher started. It is a
// link.Site. A process opens one in its life.
type World struct {
	lib        *library
	rank, size int
	comm       handle // a duplicate of MPI_COMM_WORLD, which carries no other messages
	deadline   time.Duration
	place      *meet.Place
	pauser     pauser

	mu     sync.Mutex   // held in every call of MPI
	kept   []any        // memory that MPI has not given back, kept for ever
	links  int          // number of links made
	parted []*transport // links that have been closed
	closed bool
}

var _ link.Site = (*World)(nil)

// Open starts MPI in this process and makes the ranks known to each other. It blocks
// until all ranks have called it. A process without a launcher is a job of its own, with
// one rank.
//
// The error names the missing part, and how to get it. It is also an error if the library
// does not belong to the launcher, because every rank would then be alone. Open leaves
// the signal handlers as they were before.
//
// The library is the file named by MLX_MPI_LIBNAME, or else of the MPI that started this
// process, recognised by OMPI_COMM_WORLD_SIZE and PMI_SIZE.
func Open(opts Options) (*World, error) {
	deadline, err := jaccl.Options{Deadline: opts.Deadline}.Wait()
	if err != nil {
		return nil, fmt.Errorf("mpi: open: %w", err)
	}
	getenv := environment(opts.Getenv)
	before := handlers() // some libraries replace them while loading, some while starting
	defer before.restore()
	if err := refuseCache(getenv); err != nil {
		return nil, err
	}
	lib, err := open(getenv)
	if err != nil {
		return nil, err
	}
	if err := lib.startable(getenv); err != nil {
		return nil, err
	}
	w := &World{lib: lib, deadline: deadline}
	if w.pauser, err = newPauser(); err != nil {
		return nil, fmt.Errorf("mpi: open: the C library: %w", err)
	}
	err = w.start()
	before.restore()
	if err != nil {
		return nil, err
	}
	if err := w.together(getenv); err != nil {
		return nil, err
	}
	w.place, err = meet.Over(context.Background(), w.rank, w.size, w.gather, meet.Options{Deadline: deadline})
	if err != nil {
		return nil, fmt.Errorf("mpi: open: rank %d of %d: %w", w.rank, w.size, err)
	}
	return w, nil
}

// start initializes MPI and this world's communicator.
func (w *World) start() error {
	l := w.lib
	var before, after int32
	if err := l.error("MPI_Initialized", call(l.fn.initialized, uintptr(unsafe.Pointer(&before)))); err != nil {
		return err
	}
	if err := l.error("MPI_Finalized", call(l.fn.finalized, uintptr(unsafe.Pointer(&after)))); err != nil {
		return err
	}
	switch {
	case after != 0:
		return errFinalized
	case before != 0:
		return errors.New("mpi: open: MPI is in use in this process already; open one World per process")
	}
	var provided int32
	if err := l.error("MPI_Init_thread", call(l.fn.initThread, 0, 0, threadSerialized, uintptr(unsafe.Pointer(&provided)))); err != nil {
		return err
	}
	if provided < threadSerialized {
		return fmt.Errorf("mpi: open: %s (%s) is for one thread only (level %d), want MPI_THREAD_SERIALIZED; use a build with threads", l.name, l.version, provided)
	}
	var dup uint64 // fits both kinds of handle
	if err := l.error("MPI_Comm_set_errhandler", call(l.fn.setErrhandler, uintptr(l.world), uintptr(l.errorsReturn))); err != nil {
		return err
	}
	if err := l.error("MPI_Comm_dup", call(l.fn.commDup, uintptr(l.world), uintptr(unsafe.Pointer(&dup)))); err != nil {
		return err
	}
	w.comm = handle(dup)
	if err := l.error("MPI_Comm_set_errhandler", call(l.fn.setErrhandler, uintptr(w.comm), uintptr(l.errorsReturn))); err != nil {
		return err
	}
	var rank, size int32
	if err := l.error("MPI_Comm_rank", call(l.fn.commRank, uintptr(w.comm), uintptr(unsafe.Pointer(&rank)))); err != nil {
		return err
	}
	if err := l.error("MPI_Comm_size", call(l.fn.commSize, uintptr(w.comm), uintptr(unsafe.Pointer(&size)))); err != nil {
		return err
	}
	w.rank, w.size = int(rank), int(size)
	return nil
}

// Rank is this process's rank in MPI_COMM_WORLD.
func (w *World) Rank() int { return w.rank }

// Size is the number of ranks.
func (w *World) Size() int { return w.size }

// Library returns the file of the MPI in use, and its name and version.
func (w *World) Library() (file, version string) { return w.lib.name, w.lib.version }

// Host implements link.Site.
func (w *World) Host(rank int) string { return w.place.Host(rank) }

// SameHost implements link.Site.
func (w *World) SameHost(rank int) bool { return w.place.SameHost(rank) }

// Gather implements link.Site, by MPI.
func (w *World) Gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	return w.place.Gather(ctx, key, mine)
}

// Dial implements link.Site. The connections are TCP connections, for a watch, say; MPI
// does not use them.
func (w *World) Dial(ctx context.Context, purpose string) ([]net.Conn, error) {
	return w.place.Dial(ctx, purpose)
}

// gather runs Gather's two steps: all ranks' lengths, then all ranks' bytes.
func (w *World) gather(ctx context.Context, _ string, mine []byte) ([][]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.deadline, fmt.Errorf("mpi: not all ranks have come within %v", w.deadline))
	defer cancel()
	if err := w.usable(); err != nil {
		return nil, err
	}
	if len(mine) > maxGather {
		return nil, fmt.Errorf("mpi: gather: %d bytes, want at most %d", len(mine), maxGather)
	}
	l := w.lib
	b := &batch{l: l}
	length, lengths := binary.NativeEndian.AppendUint32(words(4)[:0], uint32(len(mine))), words(4*w.size)
	w.mu.Lock()
	err := l.error("MPI_Iallgather", call(l.fn.iallgather,
		uintptr(unsafe.Pointer(&length[0])), 4, uintptr(l.bytes), uintptr(unsafe.Pointer(&lengths[0])), 4, uintptr(l.bytes), uintptr(w.comm),
		uintptr(b.add(request{kind: together, keep: []any{length, lengths}}))))
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := w.wait(ctx, b); err != nil {
		return nil, err
	}
	counts, starts := make([]int32, w.size), make([]int32, w.size)
	total := 0
	for r := range counts {
		n := binary.NativeEndian.Uint32(lengths[4*r:])
		if n > maxGather || total+int(n) > 1<<30 {
			return nil, fmt.Errorf("mpi: gather: rank %d passes %d bytes, want at most %d, and 1 GiB in all", r, n, maxGather)
		}
		counts[r], starts[r] = int32(n), int32(total)
		total += int(n)
	}
	src, dst := words(len(mine)+1), words(total+1) // with an address even if there is nothing
	copy(src, mine)
	w.mu.Lock()
	err = l.error("MPI_Iallgatherv", call(l.fn.iallgatherv,
		uintptr(unsafe.Pointer(&src[0])), uintptr(len(mine)), uintptr(l.bytes),
		uintptr(unsafe.Pointer(&dst[0])), uintptr(unsafe.Pointer(&counts[0])), uintptr(unsafe.Pointer(&starts[0])), uintptr(l.bytes), uintptr(w.comm),
		uintptr(b.add(request{kind: together, keep: []any{src, dst, counts, starts}}))))
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := w.wait(ctx, b); err != nil {
		return nil, err
	}
	parts := make([][]byte, w.size)
	for r := range parts {
		parts[r] = dst[starts[r]:][:counts[r]:counts[r]]
	}
	return parts, nil
}

// usable returns why MPI must not be used any more, nil if it may.
func (w *World) usable() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return errors.New("mpi: the world is closed")
	case len(w.kept) > 0:
		return errors.New("mpi: something failed before, and MPI has not ended it; end the process")
	}
	return nil
}

// keep holds the memory of requests that MPI may still use.
func (w *World) keep(b *batch) {
	w.mu.Lock()
	w.kept = append(w.kept, b)
	w.mu.Unlock()
}

// part notes a link that has been closed. The farewells of its peers may still arrive,
// and MPI has to receive all messages before finalizing.
func (w *World) part(l *transport) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range l.b.what {
		if r.kind != recvBye {
			w.kept = append(w.kept, &l.b)
			return
		}
	}
	w.parted = append(w.parted, l)
}

// Close ends MPI in this process when all ranks have called Close. If not all ranks call
// it within the deadline, or MPI still holds requests of a failed exchange, it leaves MPI
// as it is and returns an error to that effect; the process has to end then, and its
// launcher ends the others. Links are closed before the World. Close may be called twice.
func (w *World) Close() error {
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return nil
	}
	err := w.leave()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	if e := w.place.Close(); err == nil {
		err = e
	}
	return err
}

func (w *World) leave() error {
	if err := w.usable(); err != nil {
		return fmt.Errorf("mpi: close: not finalized: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), w.deadline, fmt.Errorf("not all ranks have come to Close within %v", w.deadline))
	defer cancel()
	b := &batch{l: w.lib}
	w.mu.Lock()
	err := w.lib.error("MPI_Ibarrier", call(w.lib.fn.ibarrier, uintptr(w.comm), uintptr(b.add(request{kind: together}))))
	w.mu.Unlock()
	if err == nil {
		err = w.wait(ctx, b)
	}
	if err != nil {
		return fmt.Errorf("mpi: close: not finalized: %w", err)
	}
	for _, l := range w.parted {
		l.farewells()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lib.error("MPI_Finalize", call(w.lib.fn.finalize))
}
