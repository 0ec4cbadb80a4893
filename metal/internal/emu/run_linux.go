//go:build linux && (amd64 || arm64)

package emu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// dispatch has the layout of msl_dispatch in abi.h.
type dispatch struct {
	fn                    uintptr
	bufs, lens            unsafe.Pointer
	groups, threads, grid [3]uint32
	memory, order, poison uint32
	seed                  uint64
	flush, limit          uint32
	counts                unsafe.Pointer
}

// fault has the layout of msl_fault in abi.h.
type fault struct {
	address       uint64
	signal, write int32
}

// Run runs a kernel and waits for it to end. Every mistake of the kernel or of the launch is an
// error; bytes written before the mistake stay in the buffers. Run ends early when ctx does, even
// if the kernel is in an endless loop.
func (l *Library) Run(ctx context.Context, launch Launch) error {
	if err := l.run(ctx, &launch); err != nil {
		return fmt.Errorf("emu: kernel %s: %w", launch.Function, err)
	}
	return nil
}

func (l *Library) run(ctx context.Context, launch *Launch) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	k, err := l.kernel(launch.Function)
	if err != nil {
		return err
	}
	g, err := launch.shape(k)
	if err != nil {
		return err
	}
	offsets, memory, err := launch.memory(k)
	if err != nil {
		return err
	}
	b, err := l.bind(k, launch.Buffers)
	defer func() { l.keep(b.owned) }()
	if err != nil {
		return err
	}
	total := uint64(g.groups[0]) * uint64(g.groups[1]) * uint64(g.groups[2])
	n := launch.Workers
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	if launch.Counts != nil {
		n = 1
	}
	n = int(min(uint64(n), total))
	workers, err := l.take(n)
	if err != nil {
		return err
	}
	defer l.give(workers)
	release, err := l.setConstants(ctx, launch.Constants)
	if err != nil {
		return err
	}
	defer release()

	d := &dispatch{fn: l.entries[k.Name], bufs: unsafe.Pointer(&b.addresses), lens: unsafe.Pointer(&offsets), groups: g.groups, threads: g.threads, grid: g.grid,
		memory: memory, order: uint32(launch.Order), poison: 1, seed: launch.Seed, limit: uint32(max(launch.Limit, 0))}
	if launch.Flush {
		d.flush = 1
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	if launch.Counts != nil {
		c := newCounters(b)
		pin.Pin(c)
		for i := range c.buffers {
			if s := c.buffers[i].seen; s != nil {
				pin.Pin(s)
			}
		}
		d.counts = unsafe.Pointer(c)
		defer func() { c.add(launch.Counts, k, total) }()
	}
	pin.Pin(d)
	pin.Pin(&b.addresses)
	pin.Pin(&offsets)
	if err := l.dispatch(ctx, workers, d, total, b); err != nil {
		return err
	}
	return b.check()
}

// dispatch lets the workers run all threadgroups, in chunks of consecutive threadgroups: eight
// chunks per worker, or one per threadgroup if there are fewer threadgroups than that.
func (l *Library) dispatch(ctx context.Context, workers []uintptr, d *dispatch, total uint64, b *bound) error {
	pieces := min(total, uint64(len(workers))*8)
	var next atomic.Uint64
	var failed atomic.Bool
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		l.stopAtEnd(ctx, workers, done)
	}()
	for i, w := range workers {
		wg.Go(func() {
			for !failed.Load() && ctx.Err() == nil {
				p := next.Add(1) - 1
				if p >= pieces {
					return
				}
				if Order(d.order) == Reverse {
					p = pieces - 1 - p
				}
				r, _, _ := purego.SyscallN(l.calls.run, w, uintptr(unsafe.Pointer(d)), uintptr(p*total/pieces), uintptr((p+1)*total/pieces))
				if int32(r) != 0 {
					errs[i] = l.workerError(w, b)
					failed.Store(true)
				}
			}
		})
	}
	wg.Wait()
	close(done)
	<-stopped
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// stopAtEnd stops the workers once ctx ends, and returns when done is closed. A worker between two
// kernels does not notice a request to stop, so the requests are repeated.
func (l *Library) stopAtEnd(ctx context.Context, workers []uintptr, done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		for _, w := range workers {
			purego.SyscallN(l.calls.workerStop, w)
		}
		select {
		case <-done:
			return
		case <-again.C:
		}
	}
}

// workerError returns the error of a worker's last run.
func (l *Library) workerError(w uintptr, b *bound) error {
	r, _, _ := purego.SyscallN(l.calls.workerErr, w)
	message := text(pointer(r))
	f := new(fault)
	purego.SyscallN(l.calls.workerFault, w, uintptr(unsafe.Pointer(f)))
	if f.address != 0 {
		if where := b.where(uintptr(f.address)); where != "" {
			return fmt.Errorf("%s: %s", where, message)
		}
	}
	return errors.New(message)
}

// bound holds a launch's buffers.
type bound struct {
	addresses [32]uintptr
	names     []Argument
	buffers   []*Buffer // by index
	owned     []*Buffer // copies made for bindings of bytes
}

// bind checks bindings against the arguments of k and returns their buffers. The caller
// must hand the result's owned buffers to the library's keep, even after an error.
func (l *Library) bind(k Kernel, bindings []Binding) (*bound, error) {
	b := &bound{names: k.Buffers, buffers: make([]*Buffer, len(bindings))}
	if len(bindings) > 31 {
		return b, fmt.Errorf("%d buffers, want at most 31", len(bindings))
	}
	for i, x := range bindings {
		buffer, offset := x.Buffer, x.Offset
		switch {
		case x.Bytes != nil && x.Buffer != nil:
			return b, fmt.Errorf("buffer %d is bound to a buffer and to bytes", i)
		case len(x.Bytes) > maxBytes:
			return b, fmt.Errorf("buffer %d is bound to %d bytes, want at most %d or a buffer", i, len(x.Bytes), maxBytes)
		case x.Bytes != nil:
			var err error
			if buffer, err = l.bufferOf(x.Bytes); err != nil {
				return b, err
			}
			offset = 0
			b.owned = append(b.owned, buffer)
		case buffer == nil:
			continue
		case buffer.mapped == nil:
			return b, fmt.Errorf("buffer %d is closed", i)
		case offset < 0 || offset > len(buffer.data):
			return b, fmt.Errorf("buffer %d is bound at byte %d, it has %d", i, offset, len(buffer.data))
		}
		b.buffers[i] = buffer
		b.addresses[i] = buffer.address() + uintptr(offset)
	}
	for _, a := range k.Buffers {
		if a.Index >= len(bindings) || b.buffers[a.Index] == nil {
			return b, fmt.Errorf("buffer %d (%s) is not bound", a.Index, a.Name)
		}
	}
	return b, nil
}

// name returns the name of buffer i in errors.
func (b *bound) name(i int) string {
	if j := slices.IndexFunc(b.names, func(a Argument) bool { return a.Index == i }); j >= 0 {
		return fmt.Sprintf("buffer %d (%s)", i, b.names[j].Name)
	}
	return fmt.Sprintf("buffer %d", i)
}

// where names the buffer and the byte at an address; "" if it is near no buffer.
func (b *bound) where(address uintptr) string {
	for i, x := range b.buffers {
		if x == nil {
			continue
		}
		if at, ok := x.offset(address); ok {
			return fmt.Sprintf("%s: byte %d, it has %d", b.name(i), at, len(x.data))
		}
	}
	return ""
}

// check returns an error if a store hit the bytes next to one of the buffers.
func (b *bound) check() error {
	for i, x := range b.buffers {
		if x == nil {
			continue
		}
		if err := x.check(); err != nil {
			return fmt.Errorf("%s: %w", b.name(i), err)
		}
	}
	return nil
}

// setConstants waits until no other run is reading the library's function constants. Then it sets
// the constants listed in values, and all others to zero. The caller must call release after its
// run.
func (l *Library) setConstants(ctx context.Context, values map[int]any) (release func(), err error) {
	if len(l.constants) == 0 && len(values) == 0 {
		return func() {}, nil
	}
	set := map[int][]byte{}
	for i, v := range values {
		c, ok := l.constants[i]
		if !ok {
			return nil, fmt.Errorf("function constant %d is not in the library", i)
		}
		if set[i], err = bytesOf(v, len(c.value)); err != nil {
			return nil, fmt.Errorf("function constant %d (%s): %w", i, c.name, err)
		}
	}
	for !atomic.CompareAndSwapUint32(l.busy, 0, 1) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		time.Sleep(50 * time.Microsecond)
	}
	for i, c := range l.constants {
		clear(c.value)
		copy(c.value, set[i])
	}
	return func() { atomic.StoreUint32(l.busy, 0) }, nil
}
