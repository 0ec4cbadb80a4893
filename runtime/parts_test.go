package runtime_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
)

// reads counts how often each byte of a file is read.
type reads struct {
	file  *bytes.Reader
	count []int
	calls int
}

func (r *reads) ReadAt(b []byte, at int64) (int, error) {
	n, err := r.file.ReadAt(b, at)
	for i := range n {
		r.count[int(at)+i]++
	}
	r.calls++
	return n, err
}

// places of an input of two dimensions on a=2,b=2.
var twoByTwo = map[string]string{"whole": "", "a": "a", "b": "b", "ab": "a.b", "ba": "b.a", "second": "_,a", "both": "b,a"}

func manyInputs(t *testing.T, d graph.DType, mesh string, shape ...int) *lowering.Plan {
	t.Helper()
	return plan(t, trace(t, func(tr *graph.Tracer) []*graph.Value {
		for name := range twoByTwo {
			tr.Input(name, d, shape...)
		}
		return []*graph.Value{toy.Sum(tr.Input("x", graph.F64, 4))}
	}), toy.Setup{Mesh: mesh, Place: twoByTwo})
}

// A process reads from a file the bytes of its ranks' parts, each once however many of its
// ranks hold them, and no others. Parts says which elements they are.
func TestPutParts(t *testing.T) {
	const before = 13 // bytes of the file that are not the array's
	for _, shape := range [][]int{{8, 4}, {7, 3}, {1, 4}, {0, 4}} {
		l := manyInputs(t, graph.I32, "a=2,b=2", shape...)
		want := counting(t, shape...)
		file := append(make([]byte, before), want.Bytes()...)
		for _, ranks := range [][]int{{4}, {2, 2}, {1, 3}, {1, 1, 1, 1}} {
			for _, err := range processes(t, ranks, []*lowering.Plan{l}, func(_ int, s *runtime.Session) error {
				for _, name := range slices.Sorted(maps.Keys(twoByTwo)) {
					r := &reads{file: bytes.NewReader(file), count: make([]int, len(file))}
					d, err := s.PutParts(name, runtime.ReadAt(r, before))
					if err != nil {
						return err
					}
					held := make([]int, len(file))
					parts, err := d.Parts()
					if err != nil {
						return err
					}
					var at []int
					for _, p := range parts {
						at = append(at, p.Rank)
						if !p.Whole.Equal(want.Type) {
							t.Errorf("%s: a part of %s, want %s", name, p.Whole, want.Type)
						}
						for i, x := range array.Data[int32](p.Array) {
							row, column := p.Start[0]+i/p.Type.Shape[1], p.Start[1]+i%p.Type.Shape[1]
							n := row*shape[1] + column
							if x != int32(n) {
								t.Errorf("%s: %s: element %d is %d, want %d", name, p, i, x, n)
							}
							for b := range 4 {
								held[before+4*n+b] = 1
							}
						}
					}
					if !slices.Equal(at, s.Local()) {
						t.Errorf("%s: parts of ranks %v, want %v", name, at, s.Local())
					}
					if !slices.Equal(r.count, held) {
						t.Errorf("%s on ranks %v: bytes are read %v times, want %v", name, s.Local(), r.count, held)
					}
					got, err := s.Get(t.Context(), d)
					if err != nil {
						return err
					}
					if !array.Equal(got, want) {
						t.Errorf("%s: got %v, want %v", name, got, want)
					}
				}
				return nil
			}) {
				require.NoError(t, err)
			}
		}
	}
}

// Rows that lie one behind another are read with one call.
func TestPutPartsRuns(t *testing.T) {
	s := open(t, manyInputs(t, graph.F32, "a=2,b=2", 8, 4), runtime.Options{})
	for name, want := range map[string]int{"whole": 1, "a": 2, "ab": 4, "second": 16, "both": 16} {
		r := &reads{file: bytes.NewReader(make([]byte, 8*4*4)), count: make([]int, 8*4*4)}
		_, err := s.PutParts(name, runtime.ReadAt(r, 0))
		require.NoError(t, err)
		if r.calls != want {
			t.Errorf("%s: %d calls, want %d", name, r.calls, want)
		}
	}
}

// Blocks are read as a whole, from memory that begins at an odd address too.
func TestPutPartsBlocks(t *testing.T) {
	l := manyInputs(t, graph.Q8_0, "a=2,b=2", 3, 96)
	s := open(t, l, runtime.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	typ := graph.T(graph.Q8_0, 3, 96)
	mem := make([]byte, 1+typ.Bytes())
	for i := range mem {
		mem[i] = byte(rng.Uint32())
	}
	for name := range twoByTwo {
		read, err := s.PutParts(name, runtime.ReadAt(bytes.NewReader(mem), 1))
		require.NoError(t, err)
		mapped, err := s.Put(name, array.Over(typ, mem[1:]))
		require.NoError(t, err)
		for _, d := range []*runtime.Array{read, mapped} {
			got, err := d.Get()
			require.NoError(t, err)
			require.Equal(t, mem[1:], got.Bytes(), name)
		}
	}
}

func TestPutPartsFails(t *testing.T) {
	l := manyInputs(t, graph.F32, "a=2,b=2", 8, 4)
	s := open(t, l, runtime.Options{})
	_, err := s.PutParts("second", runtime.ReadAt(bytes.NewReader(make([]byte, 8*4*4)), 20))
	require.EqualError(t, err, "runtime: put input second of p: rank 0, f32[0:8,0:2] of f32[8,4]: read 8 bytes at 132: unexpected EOF")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = s.PutParts("a", runtime.ReadAt(bytes.NewReader(nil), -9))
	require.ErrorContains(t, err, "runtime: put input a of p: rank 0, f32[0:4,0:4] of f32[8,4]: read 64 bytes at -9: ")
	lost := errors.New("lost")
	_, err = s.PutParts("a", func(p runtime.Part) error {
		if p.Start[0] > 0 {
			return lost
		}
		return nil
	})
	require.EqualError(t, err, "runtime: put input a of p: rank 2, f32[4:8,0:4] of f32[8,4]: lost")
	require.ErrorIs(t, err, lost)
	_, err = s.PutParts("none", func(runtime.Part) error { return nil })
	require.ErrorContains(t, err, `runtime: p has no input "none"`)
	_, err = s.PutParts("a", nil)
	require.EqualError(t, err, "runtime: put input a of p: the function that fills parts is nil")

	var none *runtime.Array
	_, err = none.Parts()
	require.ErrorContains(t, err, "no array, want one")
	d, err := s.Put("a", array.New(graph.T(graph.F32, 8, 4)))
	require.NoError(t, err)
	s.Recycle(d)
	_, err = d.Parts()
	require.EqualError(t, err, "runtime: parts of f32[8,4]: the memory was recycled; recycle what is not used any more")
}

// A byte that is no bool is found before a kernel reads it.
func TestPutBool(t *testing.T) {
	s := open(t, manyInputs(t, graph.Bool, "a=2,b=2", 2, 4), runtime.Options{})
	mem := []byte{0, 1, 0, 1, 1, 0, 2, 1}
	const want = "runtime: put input a of p: rank 2, bool[1:2,0:4] of bool[2,4]: element 2 of the part is byte 2, want 0 or 1"
	_, err := s.Put("a", array.Over(graph.T(graph.Bool, 2, 4), mem))
	require.EqualError(t, err, want)
	_, err = s.PutParts("a", runtime.ReadAt(bytes.NewReader(mem), 0))
	require.EqualError(t, err, want)
}
