package emu

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"runtime/pprof"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Kernels run on stacks that Go does not know, while it collects garbage,
// moves stacks and interrupts threads to profile and to preempt them.
func TestUnderGo(t *testing.T) {
	l := library(t, `
kernel void rounds(device float* y [[buffer(0)]], constant uint& n [[buffer(1)]], uint i [[thread_index_in_threadgroup]]) {
  float s = 0;
  for (uint k = 0; k < n; k++) {
    s += simd_sum(1.0f);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  y[i] = s;
}`, BuildOptions{})
	var profile bytes.Buffer
	require.NoError(t, pprof.StartCPUProfile(&profile))
	defer pprof.StopCPUProfile()
	stop := make(chan struct{})
	var garbage, work sync.WaitGroup
	garbage.Go(func() {
		var keep [][]byte
		for {
			select {
			case <-stop:
				return
			default:
			}
			if keep = append(keep, make([]byte, 1<<16)); len(keep) > 100 {
				keep = nil
				runtime.GC()
			}
		}
	})
	for range 4 {
		work.Go(func() {
			y, err := NewBuffer(4 * 256)
			if err != nil {
				t.Error(err)
				return
			}
			defer y.Close()
			for range 50 {
				if err := l.Run(t.Context(), Launch{Function: "rounds", Threads: [3]int{256}, Buffers: []Binding{{Buffer: y}, u32(20)}, Order: Random}); err != nil {
					t.Error(err)
					return
				}
				for _, v := range read(y) {
					if v != 640 {
						t.Errorf("%v, want 640", v)
						return
					}
				}
			}
		})
	}
	work.Wait()
	close(stop)
	garbage.Wait()
}

// Function constants are the shared object's, which may be open twice.
func TestConstantsAtOnce(t *testing.T) {
	const source = prelude + "constant uint value [[function_constant(4)]];\nkernel void get(device uint* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i] = value; }"
	path, err := compiler(t).Build(t.Context(), source, BuildOptions{})
	require.NoError(t, err)
	var work sync.WaitGroup
	for i := range 4 {
		l, err := Open(path)
		require.NoError(t, err)
		defer l.Close()
		y := floats(t, 640)
		work.Go(func() {
			for range 30 {
				if err := l.Run(t.Context(), Launch{Function: "get", Groups: [3]int{10}, Threads: [3]int{64}, Buffers: []Binding{{Buffer: y}}, Constants: map[int]any{4: uint32(i)}}); err != nil {
					t.Error(err)
				}
				if want := bytes.Repeat(binary.LittleEndian.AppendUint32(nil, uint32(i)), 640); !bytes.Equal(y.Bytes(), want) {
					t.Errorf("a kernel read constants of another run")
				}
			}
		})
	}
	work.Wait()
}
