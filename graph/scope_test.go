package graph

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Equations carry the scopes that they are added in, also equations of a program that is
// replayed in a scope.
func TestScope(t *testing.T) {
	inner, err := Trace("inner", func(tr *Tracer) []*Value {
		x := neg(tr.Input("x", F32, 2))
		defer tr.Scope("norm")()
		return []*Value{neg(x)}
	})
	require.NoError(t, err)
	layer := func(tr *Tracer, l int, x *Value) *Value {
		defer tr.Scope("layers.%d", l)()
		x = neg(x)
		moe := tr.Scope("moe %s", "a")
		x = neg(x)
		moe()
		return tr.Replay(inner, []*Value{x})[0]
	}
	p, err := Trace("p", func(tr *Tracer) []*Value {
		x := neg(tr.Input("x", F32, 2))
		x = neg(layer(tr, 1, layer(tr, 0, x)))
		return []*Value{x}
	})
	require.NoError(t, err)
	require.NoError(t, Check(p))
	var got []string
	for _, e := range p.Eqns {
		got = append(got, e.Pos.Scope)
	}
	require.Equal(t, []string{"",
		"layers.0", "layers.0.moe a", "layers.0", "layers.0.norm",
		"layers.1", "layers.1.moe a", "layers.1", "layers.1.norm", ""}, got)
	require.Equal(t, "scope_test.go:15 (layers.1)", p.Eqns[7].Pos.String())
	require.Equal(t, "- (a)", Pos{Scope: "a"}.String())
}

// The text form has a line where the scope changes. It can be parsed, and prints again;
// a value may be called scope.
func TestScopeText(t *testing.T) {
	const text = `program p(scope f32[2], "a b" f32[2]) {
	v1 f32[2] = neg(scope)
	scope "layers.0 \"x\""
	v2 f32[2] = neg(v1)
	v3 f32[2] = neg("a b")
	scope "layers.1"
	v4 f32[2] = neg(v3)
	scope
	"return" f32[2] = neg(v4)
	"1st.weight" f32[2] = neg("return")
	return "1st.weight", v2, scope
}
`
	p, err := Parse("p", text, toys()...)
	require.NoError(t, err)
	require.NoError(t, Check(p))
	require.Equal(t, text, p.String())
	require.Equal(t, `p:4 (layers.0 "x")`, p.Eqns[1].Pos.String())
	require.Equal(t, "1st.weight", p.Out[0].Name)
	require.Equal(t, "a b", p.In[1].Name)

	named, err := Parse("p", "program p(x f32[2]) {\nscope f32[2] = neg(x)\nscope \"a\"\nscope \"b\"\ny = neg(scope)\nscope\nreturn y\n}", toys()...)
	require.NoError(t, err)
	again, err := Parse("p", named.String(), toys()...)
	require.NoError(t, err)
	require.Equal(t, named.String(), again.String())
	require.Equal(t, "b", named.Eqns[1].Pos.Scope)
}

// Programs that differ in scopes alone are the same derivative of a CustomOp.
func TestEqualPrimitiveScope(t *testing.T) {
	trace := func(scope string) *Program {
		p, err := Trace("f", func(tr *Tracer) []*Value {
			defer tr.Scope("%s", scope)()
			return []*Value{neg(tr.Input("x", F32))}
		})
		require.NoError(t, err)
		return p
	}
	a, b := trace("a"), trace("b")
	require.True(t, EqualPrimitive(CustomOp{a, a}, CustomOp{b, b}))
}

// Every mistake names its scope: in an equation, by Fail, and in the scope itself.
func TestScopeMistakes(t *testing.T) {
	for _, tt := range []struct {
		want string
		fn   func(tr *Tracer, x *Value)
	}{
		{"neg(f32[], f32[]): 2 arguments, want 1", func(tr *Tracer, x *Value) { Apply(toyUnary{"neg"}, x, x) }},
		{"no", func(tr *Tracer, x *Value) { Fail("no") }},
		{"the name of a scope is empty; leave the scope out", func(tr *Tracer, x *Value) { tr.Scope("") }},
		{`scope "a\tb": want characters that can be printed`, func(tr *Tracer, x *Value) { tr.Scope("a\tb") }},
	} {
		_, err := Trace("p", func(tr *Tracer) []*Value {
			x := tr.Input("x", F32)
			defer tr.Scope("a")()
			defer tr.Scope("b")()
			tt.fn(tr, x)
			return nil
		})
		var at *Error
		require.True(t, errors.As(err, &at), "%v", err)
		require.EqualError(t, err, fmt.Sprintf("scope_test.go:%d (a.b): %s", at.Pos.Line, tt.want))
	}

	// After a scope has ended, mistakes are not in it. Other panics pass through.
	_, err := Trace("p", func(tr *Tracer) []*Value {
		func() { defer tr.Scope("a")() }()
		Fail("no")
		return nil
	})
	require.Regexp(t, `^scope_test\.go:\d+: no$`, err.Error())
	require.PanicsWithValue(t, "boom", func() {
		Trace("p", func(tr *Tracer) []*Value {
			defer tr.Scope("a")()
			panic("boom")
		})
	})
}

// A scope that never ends is found, at the line that begins it: the usual mistake is a
// defer without the second parentheses.
func TestScopeNeverEnds(t *testing.T) {
	for _, begin := range []func(tr *Tracer){
		func(tr *Tracer) { defer tr.Scope("a") },
		func(tr *Tracer) { tr.Scope("b"); tr.Scope("a")() },
	} {
		_, err := Trace("p", func(tr *Tracer) []*Value {
			begin(tr)
			return []*Value{neg(tr.Input("x", F32))}
		})
		require.ErrorContains(t, err, "the scope is never ended; call the function that Scope returns")
		require.Regexp(t, `^scope_test\.go:\d+`, err.Error())
	}
}

// A scope of the surrounding trace, which begins in the body of a loop, is the body's.
func TestScopeInBody(t *testing.T) {
	p, err := Trace("p", func(tr *Tracer) []*Value {
		x := tr.Input("x", F32)
		c, _ := Scan(ScanParams{Length: 2}, []*Value{x}, nil, func(c, _ []*Value) ([]*Value, []*Value) {
			defer tr.Scope("mlp")()
			return []*Value{neg(c[0])}, nil
		})
		return []*Value{neg(c[0])}
	})
	require.NoError(t, err)
	require.Equal(t, "mlp", p.Eqns[0].Prim.(ScanOp).Body.Eqns[0].Pos.Scope)
	require.Empty(t, p.Eqns[1].Pos.Scope)
}

// The equations of a call that is inlined lie within the scope of the call.
func TestScopeInline(t *testing.T) {
	f, err := Trace("f", func(tr *Tracer) []*Value {
		x := neg(tr.Input("x", F32))
		defer tr.Scope("norm")()
		return []*Value{neg(x)}
	})
	require.NoError(t, err)
	df, err := Trace("df", func(tr *Tracer) []*Value {
		tr.Input("x", F32)
		tr.Input("y", F32)
		return []*Value{neg(tr.Input("dy", F32))}
	})
	require.NoError(t, err)
	p, err := Trace("p", func(tr *Tracer) []*Value {
		defer tr.Scope("layers.0")()
		return []*Value{Apply1(CustomOp{f, df}, tr.Input("x", F32))}
	})
	require.NoError(t, err)
	q, err := Inline(t.Context(), p)
	require.NoError(t, err)
	require.Len(t, q.Eqns, 2)
	require.Equal(t, "layers.0", q.Eqns[0].Pos.Scope)
	require.Equal(t, "layers.0.norm", q.Eqns[1].Pos.Scope)
}
