package mtl

import (
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/standin"
)

// Goroutines that share a queue encode, commit and wait while stacks move, memory is
// collected and signals of the profiler arrive, in kernels too.
func TestUnderCollector(t *testing.T) {
	b := stand(t, standin.Options{})
	if pprof.StartCPUProfile(io.Discard) == nil {
		defer pprof.StopCPUProfile()
	}
	stop := time.Now().Add(time.Second)
	var rounds atomic.Int64
	errs := make(chan error, 5)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for time.Now().Before(stop) {
				if err := b.round(g); err != nil {
					errs <- err
					return
				}
				rounds.Add(1)
			}
		})
	}
	all.Go(func() {
		var keep [][]byte
		for i := 0; time.Now().Before(stop); i++ {
			if keep = append(keep, make([]byte, 1<<12)); len(keep) > 100 {
				keep = nil
				runtime.GC()
			}
		}
	})
	all.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	t.Logf("%d rounds", rounds.Load())
	if rounds.Load() < 4 {
		t.Error("hardly anything ran")
	}
}

// round adds twice, from a stack that has just been made to grow, and looks at the sums.
func (b *bench) round(g int) error {
	const n = 48
	in, err := b.device.Buffer(4 * n)
	if err != nil {
		return err
	}
	defer in.Close()
	view := unsafe.Slice((*float32)(unsafe.Pointer(&in.Bytes()[0])), n)
	copy(view, ramp(n))
	p, err := b.device.Pipeline(b.library, "add")
	if err != nil {
		return err
	}
	cb, err := b.queue.Encode(fmt.Sprint("round of ", g), func(cb *CommandBuffer) error {
		for range 2 {
			e := cb.Compute(false)
			deep(20, func(args []byte) {
				e.SetPipeline(p)
				e.SetBuffer(0, in, 0)
				e.SetBuffer(1, in, 0)
				e.SetBytes(2, args)
				e.Dispatch([3]int{2, 1, 1}, [3]int{32, 1, 1})
			}, n, float32(g+1))
			e.End()
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer cb.Close()
	if err := cb.Wait(b.Context()); err != nil {
		return err
	}
	for i, v := range view {
		if v != float32(i+2*(g+1)) {
			return fmt.Errorf("goroutine %d: sum %d is %v, want %v", g, i, v, i+2*(g+1))
		}
	}
	return nil
}

// deep calls f with a shape that lies on the stack, if it may, many frames down.
func deep(depth int, f func([]byte), n int, add float32) {
	var frame [256]byte
	if depth > 0 {
		deep(depth-1, f, n, add)
		frame[depth] = 1
		return
	}
	var args [8]byte
	copy(args[:], shape(n, add))
	f(args[:])
}

// Many ask for the same library and pipeline at once, and get the same.
func TestSharedCaches(t *testing.T) {
	b := stand(t, standin.Options{})
	var all sync.WaitGroup
	var libraries [8]*Library
	var pipelines [8]*Pipeline
	source := kernels + "\n// another text\n"
	for i := range libraries {
		all.Go(func() {
			l, err := b.device.Library(source, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			libraries[i] = l
			if pipelines[i], err = b.device.Pipeline(l, "sums"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range libraries {
		if libraries[i] != libraries[0] || pipelines[i] != pipelines[0] || pipelines[i] == nil {
			t.Errorf("library %p and pipeline %p of asker %d, want %p and %p", libraries[i], pipelines[i], i, libraries[0], pipelines[0])
		}
	}
	if got := b.standin.Report().Live()["MTLLibrary"]; got != 2 {
		t.Errorf("%d libraries are alive, want 2", got)
	}
}

// Two stand-ins, each with its own constants in the same compiled kernels.
func TestConstantsApart(t *testing.T) {
	var all sync.WaitGroup
	start := make(chan bool) // opening one takes longer than its rounds
	for scale := int32(1); scale <= 2; scale++ {
		b := stand(t, standin.Options{})
		const groups = 256
		in, _ := b.floats(ramp(32 * groups)...)
		out, view := b.floats(make([]float32, 32*groups)...)
		p := b.pipeline("multiply", Constant{0, scale}, Constant{1, false})
		all.Go(func() {
			<-start
			for range 100 {
				cb, err := b.queue.Encode("multiply", func(cb *CommandBuffer) error {
					e := cb.Compute(false)
					e.SetPipeline(p)
					e.SetBuffer(0, in, 0)
					e.SetBuffer(1, out, 0)
					e.Dispatch([3]int{groups, 1, 1}, [3]int{32, 1, 1})
					e.End()
					return nil
				})
				if err == nil {
					err = cb.Wait(b.Context())
					cb.Close()
				}
				for i, v := range view {
					if err != nil || v != float32(int32(i)*scale) {
						t.Errorf("scale %d gave %v at %d, %v", scale, v, i, err)
						return
					}
				}
			}
		})
	}
	close(start)
	all.Wait()
}

func TestStatus(t *testing.T) {
	for s, want := range map[Status]string{NotEnqueued: "not enqueued", Failed: "failed", 9: "status 9", -1: "status -1"} {
		if s.String() != want {
			t.Errorf("status %d is %q, want %q", int(s), s, want)
		}
	}
}

// System is Apple's where there is one, and elsewhere says why not.
func TestSystem(t *testing.T) {
	rt, err := System()
	if runtime.GOOS == "darwin" {
		require.NoError(t, err)
		require.NotNil(t, rt)
		return
	}
	require.ErrorIs(t, err, ErrNoMetal)
	require.ErrorContains(t, err, "this is "+runtime.GOOS)
}

// Every selector has a name of its own, and a colon per argument.
func TestSelectors(t *testing.T) {
	b := stand(t, standin.Options{})
	seen := map[uintptr]string{}
	for name, to := range b.rt.sel.names() {
		if *to == 0 || seen[*to] != "" {
			t.Errorf("selector %s is %#x, as is %q", name, *to, seen[*to])
		}
		seen[*to] = name
	}
	words := unsafe.Slice((*uintptr)(unsafe.Pointer(&b.rt.sel)), unsafe.Sizeof(b.rt.sel)/unsafe.Sizeof(uintptr(0)))
	for i, w := range words {
		if w == 0 {
			t.Errorf("selector number %d has no name", i)
		}
	}
}
