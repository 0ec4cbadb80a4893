package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/metaltest"
)

// Experts' matrices may have more elements together than 32 bits count. Here they are more
// than 2^31, of which only those of the first and the last expert take memory.
func TestLargeStack(t *testing.T) {
	const experts, deep, cols = 70000, 256, 128
	for _, c := range []struct {
		elem, name string
		bytes      int // of a matrix
		fill       func(matrix []byte, x float32)
	}{
		{"f32", "grouped_matmul", deep * cols * 4, func(m []byte, x float32) {
			for i := 0; i < len(m); i += 4 {
				binary.LittleEndian.PutUint32(m[i:], math.Float32bits(x))
			}
		}},
		{"q8_0", "grouped_matmul_blocks", deep * cols / 32 * 34, func(m []byte, x float32) {
			for i := 0; i < len(m); i += 34 {
				binary.LittleEndian.PutUint16(m[i:], uint16(0x3800+0x400*int(x))) // half of 1 or 2
				for k := range 32 {
					m[i+2+k] = 1
				}
			}
		}},
	} {
		p := programIn(t, fmt.Sprintf(`program p(ids i32[2,1], x f32[2,%d], w %s[%d,%d,%d]) {
	r, drop, n, pad, demand = ep_prepare(ids) experts=%d
	rows = ep_dispatch(x, r) experts=%d
	v = neg(rows)
	y = grouped_matmul(v, w, r) transpose=true
	out = ep_combine(y, r) experts=%d
	return out
}`, deep, c.elem, experts, cols, deep, experts, experts, experts), c.name)
		require.Len(t, p.Launches, 1)
		w, err := emu.NewZeros(experts * c.bytes)
		require.NoError(t, err)
		c.fill(w.Bytes()[:c.bytes], 1)
		c.fill(w.Bytes()[(experts-1)*c.bytes:], 2)
		counts, x := make([]int32, experts), make([]float32, 2*deep)
		counts[0], counts[experts-1] = 1, 1
		for i := range x {
			x[i] = 1
		}
		y := make([]float32, 2*cols)
		out := bufferOf(t, raw(y))
		runOver(t, p.Launches[0], []*emu.Buffer{bufferOf(t, raw(x)), w}, bufferOf(t, raw(counts)), out)
		copy(raw(y), out.Bytes())
		require.NoError(t, w.Close())
		for i, got := range y {
			if want := float32(deep * (1 + i/cols)); got != want {
				t.Fatalf("%s: element %d is %v, want %v", c.elem, i, got, want)
			}
		}
	}
}

// The gradient of such a stack is the GPU's, too. Here the sums of two experts lie as far from
// each other as those of the first and the last, and the memory between them is not touched.
func TestLargeStackGradient(t *testing.T) {
	const x, y, matrix = 256, 128, 4 * 256 * 128
	program := func(experts int) *kernels.Program {
		return programIn(t, fmt.Sprintf(`program p(ids i32[2,1], x f32[2,%d], ct f32[2,%d]) {
	r, drop, n, pad, demand = ep_prepare(ids) experts=%d
	rows = ep_dispatch(x, r) experts=%[3]d
	cts = ep_dispatch(ct, r) experts=%[3]d
	v = neg(rows)
	u = neg(cts)
	out = grouped_outer(v, u, r) experts=%[3]d
	return out
}`, x, y, experts), "grouped_outer")
	}
	const experts = 70000
	all, two := program(experts).Launches[0], program(2).Launches[0]
	apart := func(l kernels.Launch) []byte { b := l.Args[len(l.Args)-1].Bytes; return b[len(b)-8:] }
	require.Equal(t, uint64(matrix), binary.LittleEndian.Uint64(apart(all)))
	require.Equal(t, experts, all.Groups[2])
	const far = (experts - 1) * matrix
	binary.LittleEndian.PutUint64(apart(two), far)

	rows, cts := make([]float32, 2*x), make([]float32, 2*y)
	for i := range rows {
		rows[i] = float32(1 + i/x)
	}
	for i := range cts {
		cts[i] = float32(1 + i%y)
	}
	out, err := emu.NewZeros(far + matrix)
	require.NoError(t, err)
	defer func() { require.NoError(t, out.Close()) }()
	runOver(t, two, []*emu.Buffer{bufferOf(t, raw(rows)), bufferOf(t, raw(cts))}, bufferOf(t, raw([]int32{1, 1})), out)
	for e := range 2 {
		sum := out.Bytes()[e*far:][:matrix]
		for i := range x * y {
			want := float32((1 + e) * (1 + i%y))
			if got := math.Float32frombits(binary.LittleEndian.Uint32(sum[4*i:])); got != want {
				t.Fatalf("expert %d: element %d is %v, want %v", e, i, got, want)
			}
		}
	}
}

func bufferOf(t *testing.T, memory []byte) *emu.Buffer {
	t.Helper()
	b, err := emu.NewBufferOf(memory)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// runOver runs a launch over buffers, of which out is result 0.
func runOver(t *testing.T, l kernels.Launch, in []*emu.Buffer, zones, out *emu.Buffer) {
	t.Helper()
	text, err := kernels.Text(l.Source.File)
	require.NoError(t, err)
	lib, err := metaltest.Library(t.Context(), text, emu.BuildOptions{Leader: true})
	metaltest.Compiled(t, err)
	launch := emu.Launch{Function: l.Function, Groups: l.Groups, Threads: l.Threads, Memory: l.Memory, Constants: l.Constants}
	for _, a := range l.Args {
		b := emu.Binding{Bytes: a.Bytes}
		switch a.Kind {
		case kernels.OfIn:
			b.Buffer = in[a.Index]
		case kernels.OfZones:
			b.Buffer = zones
		case kernels.OfOut:
			b.Buffer = out
		}
		launch.Buffers = append(launch.Buffers, b)
	}
	require.NoError(t, lib.Run(t.Context(), launch))
}
