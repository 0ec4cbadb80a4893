package counts

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTime(t *testing.T) {
	g := GPU{Memory: 1e9, Threadgroup: 4e9, F32: 2e9, F16: 4e9}
	d, by := g.Time(Counts{ProductsTensor: 2000})
	require.Equal(t, []any{time.Microsecond, Arithmetic}, []any{d, by}, "as matrices of 16 bits")
	accelerated := g
	accelerated.Tensor = 16e9
	d, _ = accelerated.Time(Counts{ProductsTensor: 2000, Products16: 2000})
	require.Equal(t, 1250*time.Nanosecond, d)
	for _, x := range []struct {
		c    Counts
		want time.Duration
		by   Bound
	}{
		{Counts{Device: Traffic{Loaded: 9000, Read: 5000, Once: 1000, Written: 500}, Constant: Traffic{Once: 500}}, 2 * time.Microsecond, Memory},
		{Counts{Device: Traffic{Once: 100}, Products32: 1000, Products16: 1000, Operations: 500}, 2 * time.Microsecond, Arithmetic},
		{Counts{Device: Traffic{Once: 100}, Threadgroup: Traffic{Loaded: 4000}}, time.Microsecond, Threadgroup},
	} {
		d, by := g.Time(x.c)
		require.Equal(t, x.want, d)
		require.Equal(t, x.by, by)
	}
	for _, g := range GPUs() {
		require.NotEmpty(t, g.Source)
	}
	// A GPU's peak is what its maker says: 10.4 TFLOP/s of the M1 Max.
	require.InEpsilon(t, 10.4e12, GPUs()[0].F32, 0.03)
	for _, g := range GPUs() {
		require.Equal(t, map[bool]float64{true: 4 * g.F16}[g.Name == "M5"], g.Tensor)
	}
}

func TestSub(t *testing.T) {
	a := Device{Commits: 3, Waits: 2, Dispatches: 5, Barriers: 4, DebugGroups: 1, Kernels: Counts{Products16: 7, Device: Traffic{Loaded: 9}}}
	b := a
	b.Commits, b.Kernels.Products16 = 4, 10
	require.Equal(t, Device{Commits: 1, Kernels: Counts{Products16: 3}}, b.Sub(a))
}

func ExampleGPU_Time() {
	// A matrix of 4096×4096 numbers of 16 bits that is read once takes 0.08 ms on an M1 Max.
	d, by := GPUs()[0].Time(Counts{Device: Traffic{Once: 2 * 4096 * 4096}})
	fmt.Println(d.Round(10*time.Microsecond), by)
	// Output: 80µs memory
}
