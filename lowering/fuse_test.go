package lowering_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
)

// TestFusePlan has a plan before and after elementwise instructions are fused. There
// are a chain of the loss and one of the gradient, with the constant that both use. Both
// write over what they read last.
func TestFusePlan(t *testing.T) {
	p := trace(t, descent)
	require.Equal(t, `plan p mesh "" ranks=1 arena=192
	in  w            f32[8] b0@in
	in  x            f32[8] b1@in
	  0   b2@0 f32[8] = mul(b0@in, b1@in)
	  1   b3@64 f32[8] = square(b2@0)
	  2   b4@out f32[] = sum(b3@64)
	  3   b5@128 f32[] = full() value=1 dtype=f32
	  4   b6@64 f32[8] = spread(b5@128) shape=[8]
	  5   b7@128 f32[8] = mul(b6@64, b2@0)
	  6   b8@0 f32[8] = scale(b7@128) by=2
	  7   b9@64 f32[8] = mul(b8@0, b1@in)
	  8   b11@0 f32[8] = scale(b10@64) by=-0.5
	  9   b12@out f32[8] = add(b0@in, b11@0)
	out v3           f32[] b4@out
	out v11          f32[8] b12@out
`, text(plan(t, p, toy.Setup{})))
	fused := plan(t, p, toy.Setup{Chunk: 8})
	require.Equal(t, `plan p mesh "" ranks=1 arena=128
	in  w            f32[8] b0@in
	in  x            f32[8] b1@in
	  0   b2@0 f32[8], b3@64 f32[8] = fused(mul, square)(b0@in, b1@in)
	    . b2@0 f32[8] = mul(b0@in, b1@in)
	    . b3@64 f32[8] = square(b2@0)
	  1   b4@out f32[] = sum(b3@64)
	  2   b5@64 f32[] = full() value=1 dtype=f32
	  3   b6@out f32[8] = spread(b5@64) shape=[8]
	  4   b12@out f32[8] = fused(mul, scale, mul, scale, add)(b6@out, b2@0, b1@in, b0@in)
	    . b7 f32[8] = mul(b6@out, b2@0)
	    . b8 f32[8] = scale(b7) by=2
	    . b9 f32[8] = mul(b8, b1@in)
	    . b11 f32[8] = scale(b9) by=-0.5
	    . b12@out f32[8] = add(b0@in, b11)
	out v3           f32[] b4@out
	out v11          f32[8] b12@out
`, text(fused))
	if !strings.Contains(fused.String(), "    . b8 f32[8] = scale(b7) by=2 # plan_test.go:") {
		t.Errorf("a part has no line:\n%s", fused)
	}
}

// Plans that differ in a parameter of a part have different hashes.
func TestFuseHash(t *testing.T) {
	build := func(by float64) *graph.Program {
		return trace(t, func(tr *graph.Tracer) []*graph.Value {
			return []*graph.Value{toy.Square(toy.Scale(by, tr.Input("x", graph.F32, 8)))}
		})
	}
	a, b := plan(t, build(2), toy.Setup{Chunk: 8}), plan(t, build(3), toy.Setup{Chunk: 8})
	require.Len(t, a.Instrs, 1)
	if a.Hash() == b.Hash() {
		t.Errorf("equal hashes of\n%s\n%s", a, b)
	}
}

// A value that an instruction between the parts reads is stored, and that instruction
// is not moved. Instructions that are not elementwise are not fused.
func TestFuseOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		fn   func(x, y *graph.Value) []*graph.Value
		want string
	}{
		{"chain", func(x, y *graph.Value) []*graph.Value {
			return []*graph.Value{toy.Add(toy.Mul(x, y), toy.Square(y))}
		}, "fused(mul, square, add)"},
		{"read between", func(x, y *graph.Value) []*graph.Value {
			a := toy.Square(x)
			return []*graph.Value{toy.Mul(a, toy.Do("other", toy.Copy, a))}
		}, "square other mul"},
		{"around what does not matter", func(x, y *graph.Value) []*graph.Value {
			a := toy.Square(x)
			return []*graph.Value{toy.Mul(toy.Do("other", toy.Copy, y), a)}
		}, "other fused(square, mul)"},
		{"through a flat view", func(x, y *graph.Value) []*graph.Value {
			return []*graph.Value{toy.Square(toy.Flatten(toy.Add(x, y)))}
		}, "fused(add, square)"},
		{"two apart", func(x, y *graph.Value) []*graph.Value {
			return []*graph.Value{toy.Square(x), toy.Square(y)}
		}, "square square"},
		{"a result on the way", func(x, y *graph.Value) []*graph.Value {
			a := toy.Square(x)
			return []*graph.Value{a, toy.Scale(2, a)}
		}, "fused(square, scale)"},
		{"other sizes", func(x, y *graph.Value) []*graph.Value {
			return []*graph.Value{toy.Scale(2, toy.Sum(toy.Square(x)))}
		}, "square sum scale"},
	} {
		l := plan(t, trace(t, func(tr *graph.Tracer) []*graph.Value {
			return c.fn(tr.Input("x", graph.F32, 4, 2), tr.Input("y", graph.F32, 4, 2))
		}), toy.Setup{Chunk: 8})
		var names []string
		for _, in := range l.Instrs {
			names = append(names, in.Name())
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %s, want %s\n%s", c.name, got, c.want, l)
		}
	}
}

// Fusing never raises the most memory that temporaries take at once: the sum of three
// long values is not delayed until the sum is used.
func TestFuseMemory(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 64)
		a, b, c := toy.Do("a", toy.Copy, x), toy.Do("b", toy.Copy, x), toy.Do("c", toy.Copy, x)
		sum := toy.Add(toy.Add(a, b), c)
		d, e := toy.Do("d", toy.Copy, x), toy.Do("e", toy.Copy, x)
		return []*graph.Value{toy.Mul(toy.Do("f", toy.Copy, toy.Add(d, e)), sum)}
	})
	before, after := plan(t, p, toy.Setup{}), plan(t, p, toy.Setup{Chunk: 8})
	if after.Arena > before.Arena || len(after.Instrs) >= len(before.Instrs) {
		t.Errorf("%d bytes of arena and %d instructions became %d and %d\n%s", before.Arena, len(before.Instrs), after.Arena, len(after.Instrs), after)
	}
}

// A fused result may lie in the memory of an argument that a later part reads.
func TestFuseDonated(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, y := tr.Input("x", graph.F64, 100), tr.Input("y", graph.F64, 100)
		a := toy.Add(x, y)
		return []*graph.Value{a, toy.Mul(a, x), toy.Mul(toy.Scale(2, a), toy.Mul(x, y))}
	})
	want := map[bool][]array.Array{}
	for _, donate := range []map[string]int{nil, {"x": 0, "y": 1}, {"x": 1, "y": 2}, {"y": 0, "x": 2}} {
		for _, chunk := range []int{0, 8, 64, 1000} {
			l := plan(t, p, toy.Setup{Donate: donate, Chunk: chunk})
			if chunk > 0 {
				require.Len(t, l.Instrs, 1, l)
				for _, d := range l.Donated {
					require.True(t, d.InPlace, l)
				}
			}
			s, err := toy.Open(l, runtime.Options{Poison: true})
			require.NoError(t, err)
			in := map[string]array.Array{}
			for _, v := range p.In {
				a := array.New(v.Type)
				for i := range array.Data[float64](a) {
					array.Data[float64](a)[i] = float64(i*i%17) + float64(len(in))
				}
				in[v.Name] = a
			}
			got, err := toy.Eval(t.Context(), s, in)
			require.NoError(t, err)
			if want[true] == nil {
				want[true] = got
			}
			for i := range got {
				if !array.Equal(got[i], want[true][i]) {
					t.Errorf("donate %v, chunks of %d: result %d is\n%v, want\n%v\n%s", donate, chunk, i, got[i], want[true][i], l)
				}
			}
			s.Close()
		}
	}
}

// failing is an elementwise primitive whose kernel the test gives.
type failing struct {
	toy.Map
	kernel exec.Kernel
}

func (f failing) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: toy.Op("failing"), Out: out, In: in, Elementwise: true, Kernel: f.kernel})
}

// Errors and panics of a part name it and its line, whatever the chunk.
func TestFuseErrors(t *testing.T) {
	cause := errors.New("no such element")
	for _, kernel := range []exec.Kernel{
		func(a *exec.Args) error {
			if array.Data[float32](a.In[0])[0] > 20 {
				return cause
			}
			return toy.Copy(a)
		},
		func(a *exec.Args) error { panic(cause) },
	} {
		p := trace(t, func(tr *graph.Tracer) []*graph.Value {
			x := tr.Input("x", graph.F32, 64)
			bad := graph.Apply1(failing{toy.Square(x).Def.Prim.(toy.Map), kernel}, toy.Scale(2, x))
			return []*graph.Value{toy.Square(bad)}
		})
		for _, threads := range []int{1, 3} {
			l := plan(t, p, toy.Setup{Chunk: 8})
			require.Len(t, l.Instrs, 1, l)
			s, err := toy.Open(l, runtime.Options{Threads: threads})
			require.NoError(t, err)
			x := array.New(graph.T(graph.F32, 64))
			for i := range array.Data[float32](x) {
				array.Data[float32](x)[i] = float32(i)
			}
			_, err = toy.Eval(t.Context(), s, map[string]array.Array{"x": x})
			var e *runtime.Error
			require.ErrorAs(t, err, &e)
			if want := "fuse_test.go:"; e.Name != "failing" || !strings.Contains(fmt.Sprint(e.Pos), want) || !strings.Contains(err.Error(), cause.Error()) {
				t.Errorf("%v, want it to name failing at %s", err, want)
			}
			s.Close()
		}
	}
}
