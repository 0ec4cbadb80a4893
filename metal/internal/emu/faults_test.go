package emu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reversed writes x in reverse through threadgroup memory; without its barrier
// no order of threads is right for all of them.
const reversed = `
kernel void reversed(device float* y [[buffer(0)]], device const float* x [[buffer(1)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float a[64];
  a[i] = x[i];
  BARRIER
  y[i] = a[63 - i];
}
`

func TestABarrierIsMissing(t *testing.T) {
	var values []float32
	for i := range 64 {
		values = append(values, float32(i))
	}
	x := of(t, values...)
	want := slices.Clone(values)
	slices.Reverse(want)
	right := library(t, "#define BARRIER threadgroup_barrier(mem_flags::mem_threadgroup);"+reversed, BuildOptions{Lint: true})
	wrong := library(t, "#define BARRIER"+reversed, BuildOptions{Lint: true})
	for _, o := range orders() {
		y := floats(t, 64)
		launch := Launch{Function: "reversed", Threads: [3]int{64}, Buffers: []Binding{{Buffer: y}, {Buffer: x}}, Order: o, Seed: 1}
		require.NoError(t, right.Run(t.Context(), launch))
		require.Equal(t, want, read(y), o)
		require.NoError(t, wrong.Run(t.Context(), launch))
		if !slices.ContainsFunc(read(y), func(v float32) bool { return math.IsNaN(float64(v)) }) {
			t.Errorf("order %s: without the barrier no thread read a value that was not yet written", o)
		}
	}
}

// Thread 0 scans and all read: without the barrier after it that is right
// while thread 0 runs first.
func TestABarrierIsMissingInSomeOrders(t *testing.T) {
	l := library(t, `
kernel void scan(device float* y [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float sum;
  if (i == 0) sum = 7;
  y[i] = sum;
}`, BuildOptions{})
	for _, threads := range []int{32, 64} { // lanes change their order, not only simdgroups
		for _, o := range orders() {
			y := floats(t, threads)
			require.NoError(t, l.Run(t.Context(), Launch{Function: "scan", Threads: [3]int{threads}, Buffers: []Binding{{Buffer: y}}, Order: o, Seed: 1}))
			nan := slices.ContainsFunc(read(y), func(v float32) bool { return math.IsNaN(float64(v)) })
			if nan != (o != Forward) {
				t.Errorf("order %s of %d threads: a value was not yet written: %v", o, threads, nan)
			}
		}
	}
}

func TestARowNobodyWroteIsNaN(t *testing.T) {
	l := library(t, `
kernel void early(device float* y [[buffer(0)]], device const float* w [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  if (w[i] == 0) return;
  y[i] = 2 * w[i];
}`, BuildOptions{Lint: true})
	y := floats(t, 4)
	require.NoError(t, l.Run(t.Context(), Launch{Function: "early", Groups: [3]int{2}, Threads: [3]int{2}, Buffers: []Binding{{Buffer: y}, {Buffer: of(t, 1, 0, 2, 3)}}}))
	got := read(y)
	if got[0] != 2 || !math.IsNaN(float64(got[1])) || got[2] != 4 || got[3] != 6 {
		t.Errorf("%v, want 2 NaN 4 6", got)
	}
}

func TestFaults(t *testing.T) {
	const args = `(device float* y [[buffer(0)]], constant uint& n [[buffer(1)]], uint i [[thread_index_in_threadgroup]])`
	wrote := " wrote to memory that no buffer has"
	if runtime.GOARCH == "arm64" {
		wrote = " memory that no buffer has" // emulated processors do not say whether it was a store
	}
	cases := []struct {
		name, body string
		want       []string
	}{
		{"a barrier in a branch", `if (i % 32 < 16) threadgroup_barrier(mem_flags::mem_none);
			y[i] = simd_sum(y[i]);`, []string{"deadlock", "32 wait at a threadgroup_barrier (test.metal:1)", "32 in a simdgroup operation (simd_sum, test.metal:2)"}},
		{"two barriers", `if (i < 32) { threadgroup_barrier(mem_flags::mem_none); }
			else threadgroup_barrier(mem_flags::mem_none);`, []string{"divergence", "test.metal:1", "test.metal:2"}},
		{"two sums", `if (i % 2) y[i] = simd_sum(y[i]);
			else y[i] = simd_max(y[i]);`, []string{"divergence", "simd_sum (test.metal:1)", "simd_max (test.metal:2)"}},
		{"a return before a barrier", `if (i == 40) return;
			threadgroup_barrier(mem_flags::mem_none);`, []string{"a thread returned before a threadgroup_barrier"}},
		{"too much memory", `threadgroup float a[8000]; threadgroup float b[193];
			a[i] = 0; b[i] = 0;`, []string{"more than 32768 bytes of threadgroup memory", "b needs 772, 32000 are in use"}},
		{"past a threadgroup array", `threadgroup float a[64]; threadgroup float b[64];
			a[i + n] = 0; b[i] = 0;`, []string{"wrote byte 256 of threadgroup memory a, which has 256"}},
		{"past a buffer", `y[i + n] = 0;`, []string{"buffer 0 (y): byte 256, it has 256", wrote}},
		{"far past a buffer", `y[i] = y[i + 65536 * n];`, []string{"buffer 0 (y): byte 262", ", it has 256", " memory that no buffer has, at address 0x"}},
		{"before a buffer", `y[int(i) - 1024 * int(n)] = 0;`, []string{"buffer 0 (y): byte -", ", it has 256", wrote}},
		{"just before a buffer", `y[int(i) - int(n)] = 0;`, []string{"buffer 0 (y): wrote byte -"}},
		{"of a constant", `y[i] = (&n)[i * n + 4];`, []string{"buffer 1 (n): byte ", ", it has 4"}},
		{"a division", `y[i] = i / (n - 1);`, []string{"an integer division by zero, in thread"}},
		{"a deep stack", `volatile float a[10000]; for (uint k = 0; k < 10000; k++) a[k] = n; y[i] = a[i];`, []string{"more than 32768 bytes of local variables"}},
		{"a deeper stack", `volatile float a[70000]; for (uint k = 70000; k > 0; k--) a[k - 1] = n; y[i] = a[i];`, []string{"more than 32768 bytes of local variables"}},
	}
	var source strings.Builder
	for i, c := range cases {
		fmt.Fprintf(&source, "#line 1 \"test.metal\"\nkernel void faulty%d%s { %s }\n", i, args, c.body)
	}
	l := library(t, source.String(), BuildOptions{Lint: true})
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, o := range orders() {
				y := floats(t, 64)
				launch := Launch{Function: fmt.Sprintf("faulty%d", i), Threads: [3]int{64}, Buffers: []Binding{{Buffer: y}, u32(1)}, Order: o, Seed: 3, Workers: 1}
				fails(t, l, launch, append(c.want, fmt.Sprintf("emu: kernel faulty%d: ", i))...)
			}
		})
	}
}

func TestLaunchErrors(t *testing.T) {
	l := library(t, `
constant bool quick [[function_constant(2)]];
kernel void f(device float* y [[buffer(0)]], device float* z [[buffer(2)]], threadgroup float* m [[threadgroup(1)]], uint i [[thread_position_in_grid]]) { if (quick) y[i] = z[i] + m[0]; }
kernel [[max_total_threads_per_threadgroup(128)]] void g(device float* y) { y[0] = 0; }`, BuildOptions{Lint: true})
	y := Binding{Buffer: floats(t, 64)}
	good := Launch{Function: "f", Threads: [3]int{64}, Buffers: []Binding{y, {}, y}, Memory: []int{0, 16}}
	require.NoError(t, l.Run(t.Context(), good))
	for want, change := range map[string]func(*Launch){
		"no such kernel; there are f, g":                        func(x *Launch) { x.Function = "h" },
		"buffer 2 (z) is not bound":                             func(x *Launch) { x.Buffers = x.Buffers[:2] },
		"threadgroup memory 1 (m) has no length":                func(x *Launch) { x.Memory = nil },
		"threadgroup memory 1 has 20 bytes, want a multiple":    func(x *Launch) { x.Memory = []int{0, 20} },
		"32784 bytes of threadgroup memory, want at most 32768": func(x *Launch) { x.Memory = []int{32768, 16} },
		"32 bytes of threadgroup memory, want at most 1":        func(x *Launch) { x.Limit, x.Memory = 1, []int{0, 32} },
		"1056 threads in a threadgroup, want at most 1024":      func(x *Launch) { x.Threads = [3]int{32, 33} },
		"256 threads in a threadgroup, want at most 128":        func(x *Launch) { x.Function, x.Threads = "g", [3]int{256} },
		"function constant 3 is not in the library":             func(x *Launch) { x.Constants = map[int]any{3: true} },
		"function constant 2 (quick): a float32 of 4 bytes":     func(x *Launch) { x.Constants = map[int]any{2: float32(1)} },
		"buffer 0 is bound at byte 257, it has 256":             func(x *Launch) { x.Buffers = []Binding{{Buffer: y.Buffer, Offset: 257}, {}, y} },
		"buffer 1 is bound to 4097 bytes":                       func(x *Launch) { x.Buffers = []Binding{y, {Bytes: make([]byte, 4097)}, y} },
		"buffer 1 is bound to a buffer and to bytes":            func(x *Launch) { x.Buffers = []Binding{y, {Buffer: y.Buffer, Bytes: []byte{1}}, y} },
	} {
		launch := good
		change(&launch)
		fails(t, l, launch, want)
	}
}

func TestAnEndlessLoopEnds(t *testing.T) {
	l := library(t, `kernel void spin(device atomic_uint* y [[buffer(0)]]) { while (atomic_load_explicit(y, memory_order_relaxed) != 7) {} }`, BuildOptions{Lint: true})
	y := floats(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	err := l.Run(ctx, Launch{Function: "spin", Groups: [3]int{8}, Threads: [3]int{64}, Buffers: []Binding{{Buffer: y}}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the context's error", err)
	}
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("it took %v to stop", d)
	}
	clear(y.Bytes())
	y.Bytes()[0] = 7
	require.NoError(t, l.Run(t.Context(), Launch{Function: "spin", Groups: [3]int{8}, Threads: [3]int{64}, Buffers: []Binding{{Buffer: y}}}), "the workers run again")
}

// Faults of Go code are still Go's: the handler passes them on.
func TestGoStillPanics(t *testing.T) {
	l := library(t, `kernel void bad(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i + 4096] = 0; }`, BuildOptions{Lint: true})
	y := floats(t, 1)
	for range 20 {
		fails(t, l, Launch{Function: "bad", Threads: [3]int{32}, Buffers: []Binding{{Buffer: y}}}, "buffer 0 (y): byte 16384")
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a nil pointer was read")
				}
			}()
			var p *[]int
			t.Log(len(*p))
		}()
	}
}

// What a kernel may have of threadgroup memory counts its own arrays, too.
func TestMemoryLimit(t *testing.T) {
	l := library(t, `kernel void f(device float* y [[buffer(0)]], threadgroup float* m [[threadgroup(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float own[8]; own[i] = m[i] = 1; y[i] = own[i];
}`, BuildOptions{})
	launch := Launch{Function: "f", Threads: [3]int{8}, Buffers: []Binding{{Buffer: floats(t, 8)}}, Memory: []int{32}, Limit: 64}
	require.NoError(t, l.Run(t.Context(), launch))
	launch.Limit = 48
	fails(t, l, launch, "more than 48 bytes of threadgroup memory: own needs 32, 32 are in use")
}
