package graph

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// line returns the line of its caller's caller, as errors print it.
func line(skip int) string {
	_, file, n, _ := runtime.Caller(skip + 1)
	return Pos{File: file, Line: n}.String()
}

// negSize infers a negative size, as a slice with crossed limits would.
type negSize struct{ N int }

func (negSize) Name() string                   { return "neg_size" }
func (p negSize) Infer([]Type) ([]Type, error) { return []Type{T(F32, 2, p.N)}, nil }

func neg(v *Value) *Value { return Apply1(toyUnary{"neg"}, v) }

// Mistakes in model code are errors at their lines.
func TestTraceMistakes(t *testing.T) {
	var stray *Value
	_, err := Trace("other", func(tr *Tracer) []*Value {
		stray = tr.Input("stray", F32, 2)
		return nil
	})
	require.NoError(t, err)

	cases := []struct {
		at   string
		fn   func(tr *Tracer) []*Value
		want string
	}{
		{line(0), func(tr *Tracer) []*Value { tr.Input("", F32); return nil },
			`the name of input 0 is empty; give each input its own name`},
		{line(0), func(tr *Tracer) []*Value { tr.Input("x", F32); tr.Input("x", I32); return nil },
			"input x is declared twice; give each input its own name"},
		{line(0), func(tr *Tracer) []*Value { tr.Input("x", NoDType); return nil },
			"input x has no element type; use one of bool u8 u32 i32 i64 f8_e4m3 f8_e5m2 f16 bf16 f32 f64"},
		{line(0), func(tr *Tracer) []*Value { tr.Input("x", IQ4_XS+1); return nil },
			"input x has no element type; use one of bool u8 u32 i32 i64 f8_e4m3 f8_e5m2 f16 bf16 f32 f64"},
		{line(0), func(tr *Tracer) []*Value { tr.Input("x", F32, 3, -1); return nil },
			"input x: f32[3,-1] has size -1 in dimension 1; sizes are 0 or more"},
		{line(0), func(tr *Tracer) []*Value { tr.Input("x", F32, math.MaxInt/2, 3); return nil },
			fmt.Sprintf("input x: f32[%d,3] has more bytes than fit in 63 bits", math.MaxInt/2)},
		{line(0), func(tr *Tracer) []*Value { tr.Apply(negSize{-4}); return nil },
			"neg_size(): the result f32[2,-4] has size -4 in dimension 1; sizes are 0 or more"},
		{line(0), func(tr *Tracer) []*Value { tr.Apply(negSize{math.MaxInt}); return nil },
			fmt.Sprintf("neg_size(): the result f32[2,%d] has more bytes than fit in 63 bits", math.MaxInt)},
		{line(0), func(tr *Tracer) []*Value { x := tr.Input("x", F32, 2); Apply(toyDot{}, x, x); return nil },
			"dot(f32[2], f32[2]): want two matrices and an axis of each"},
		{line(0), func(tr *Tracer) []*Value { tr.Apply(toyDot{}, tr.Input("x", F32, 2), nil); return nil },
			"dot(): argument 1 is nil"},
		{line(0), func(tr *Tracer) []*Value { neg(nil); return nil },
			"neg(): no argument belongs to a trace"},
		{line(0), func(tr *Tracer) []*Value { Apply(toyDot{}, tr.Input("x", F32, 2), stray); return nil },
			"value stray f32[2] belongs to another trace; pass it as an input"},
		{line(0), func(tr *Tracer) []*Value { neg(stray); return nil },
			"neg(): the trace has ended; build inside the function given to Trace"},
		{line(0), func(tr *Tracer) []*Value { stray.Tracer().Input("y", F32); return nil },
			"input y is declared after Trace returned"},
		{line(0), func(tr *Tracer) []*Value { tr.Replay(&Program{Name: "two", In: make([]*Value, 2)}, nil); return nil },
			"program two is given 0 arguments, want 2"},
		{line(0), func(tr *Tracer) []*Value { Fail("gate %d: %w", 3, errors.ErrUnsupported); return nil },
			"gate 3: unsupported operation"},
	}
	for _, c := range cases {
		p, err := Trace("p", c.fn)
		if p != nil {
			t.Errorf("%s: a program came back", c.at)
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v, want an *Error", c.at, err)
			continue
		}
		// A function of one line begins on the line of its case.
		if want := c.at + ": " + c.want; err.Error() != want {
			t.Errorf("%s:\n got %s\nwant %s", c.at, err, want)
		}
	}

	p, err := Trace("p", func(tr *Tracer) []*Value { return []*Value{stray} })
	require.ErrorContains(t, err, "value stray f32[2] belongs to another trace")
	require.Nil(t, p)
	_, err = Trace("p", func(tr *Tracer) []*Value { return []*Value{nil} })
	require.ErrorContains(t, err, "graph: program p: result 0 is nil")
	_, err = Trace("p-1", func(tr *Tracer) []*Value { t.Error("fn is run"); return nil })
	require.ErrorContains(t, err, `graph: program name "p-1": want a letter`)
}

// An equation's position is the user's line, whichever functions of the library are
// called on the way: Apply1, Replay, a builder or a rule under At.
func TestTracePositions(t *testing.T) {
	var want []string
	inner, err := Trace("inner", func(tr *Tracer) []*Value {
		x := tr.Input("x", F32, 2)
		y, at := Apply1(toyUnary{"neg"}, x), line(0)
		want = append(want, at)
		return []*Value{y}
	})
	require.NoError(t, err)
	p, err := Trace("p", func(tr *Tracer) []*Value {
		x, y := tr.Input("x", F32, 2), (*Value)(nil)
		mark := func(v *Value, at string) {
			want = append(want, at)
			y = v
		}
		tr.Replay(inner, []*Value{x})
		mark(Apply1(toyUnary{"neg"}, x), line(0))
		mark(Apply(toyUnary{"neg"}, y)[0], line(0))
		mark(tr.Apply(toyUnary{"neg"}, y)[0], line(0))
		tr.At(Pos{File: "rule.go", Line: 7}, func() {
			tr.At(Pos{File: "rule.go", Line: 8}, func() { mark(Apply1(toyUnary{"neg"}, y), "rule.go:8") })
			mark(Apply1(toyUnary{"neg"}, y), "rule.go:7")
		})
		mark(Apply1(toyUnary{"neg"}, y), line(0))
		return []*Value{y}
	})
	require.NoError(t, err)
	var got []string
	for _, e := range p.Eqns {
		got = append(got, e.Pos.String())
	}
	require.Equal(t, want, got)
	require.Equal(t, "-", Pos{}.String())
}

// Only mistakes in the program and in rules of primitives are recovered. Other panics, and the library's panics
// outside of any trace, end the program and say why.
func TestTracePanics(t *testing.T) {
	boom := errors.New("boom")
	require.PanicsWithValue(t, boom, func() {
		Trace("p", func(tr *Tracer) []*Value { panic(boom) })
	})
	_, err := Trace("p", func(tr *Tracer) []*Value { tr.Apply(toyPanic{At: 3}); return nil })
	require.ErrorContains(t, err, "panic(): the primitive's Infer panics at toy_test.go:97: ")
	var after *Value
	_, err = Trace("p", func(tr *Tracer) []*Value { after = tr.Input("x", F32); return nil })
	require.NoError(t, err)
	defer func() {
		err, ok := recover().(error)
		if !ok || !strings.HasSuffix(err.Error(), ": neg(): the trace has ended; build inside the function given to Trace") {
			t.Errorf("recovered %v", err)
		}
	}()
	neg(after)
	t.Error("a value is used after Trace")
}

// A trace that fails inside another trace does not change the outer one.
func TestTraceNested(t *testing.T) {
	p, err := Trace("outer", func(tr *Tracer) []*Value {
		x := tr.Input("x", F32, 2)
		_, err := Trace("inner", func(in *Tracer) []*Value {
			in.Input("y", F32, 2)
			return []*Value{x}
		})
		require.ErrorContains(t, err, "value x f32[2] belongs to another trace; pass it as an input")
		return []*Value{neg(x)}
	})
	require.NoError(t, err)
	require.Len(t, p.Eqns, 1)
	require.NoError(t, Check(p))
}

func TestInline(t *testing.T) {
	lib := append(toys(), Structural()...)
	p, err := Parse("p", `program fn(x f32[2]) {
	y = neg(x)
	return y
}
program back(x f32[2], y f32[2], ct f32[2]) {
	dx = neg(ct)
	return dx
}
program same(x f32[2]) {
	return x
}
program nested(x f32[2]) {
	y = custom_vjp(x) fn=fn vjp=back
	return y
}
program p(x f32[2]) {
	h = custom_vjp(x) fn=nested vjp=back
	k = custom_vjp(h) fn=same vjp=back
	z = exp(k)
	return z
}
`, lib...)
	require.NoError(t, err)
	q, err := Inline(t.Context(), p)
	require.NoError(t, err)
	require.NoError(t, Check(q))
	require.Equal(t, "program p(x f32[2]) {\n\th f32[2] = neg(x)\n\tz f32[2] = exp(h)\n\treturn z\n}\n", q.String())
	same, err := Inline(t.Context(), q)
	require.NoError(t, err)
	if same != q {
		t.Error("a program without calls is copied")
	}
}
