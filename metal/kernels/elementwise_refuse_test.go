package kernels_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/kernels"
)

// TestElementwiseRefused has what is left to the host, and why.
func TestElementwiseRefused(t *testing.T) {
	for _, c := range []struct{ in, eq, want string }{
		{"x f64[3]", "exp(x)", "no elements of f64"},
		{"x i64[3]", "neg(x)", "no elements of i64"},
		{"x f32[3]", "convert_element_type(x) dtype=f64", "no elements of f64"},
		{"x i64[3]", "convert_element_type(x) dtype=f32", "no elements of i64"},
		{"x q8_0[4,32]", "convert_element_type(x) dtype=f32", "no elements of q8_0"},
		{"x f32[3]", "reduce_prod(x) axes=[0]", "products of floats are made in f64"},
		{"x f64[3]", "reduce_sum(x) axes=[0]", "no elements of f64"},
		{"x i64[3]", "reduce_max(x) axes=[0]", "no elements of i64"},
		{"x bool[3,0]", "reduce_min(x) axes=[1]", "the least of no bool"},
		{"x f64[3]", "cumsum(x) axis=0", "no elements of f64"},
		{"x f32[3]", "argmax(x) axis=0 index_dtype=i64", "places of i64"},
		{"x i32[3]", "one_hot(x) num_classes=4 dtype=f64", "makes elements of f64"},
		{"x f64[3,2], i i32[4], u f64[4,2]", "scatter_add(x, i, u) axis=0", "no elements of f64"},
		{"x f32[3], s i32[], l f32[]", "adamw(x, x, x, x, l, s, l) b1=0.9 eps=1e-60", "eps=1e-60, which is too small"},
		{"x f32[1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2]", "rev(x) dimensions=[1,5,9,13,17]", "moves a box of 9 dimensions"},
	} {
		p := &program{in: []string{c.in}}
		p.eq("%s", c.eq)
		if strings.HasPrefix(c.eq, "adamw") {
			p.body = []string{"r0, r1, r2 = " + c.eq}
		}
		l := p.plan(t, false)
		in := l.Instrs[0]
		if in.On || !strings.Contains(in.Why, c.want) {
			t.Errorf("%s: the host runs it because %q, want a reason with %q", c.eq, in.Why, c.want)
		}
	}
	// More arguments than a Metal function has buffers.
	p := &program{}
	var sum []string
	for i := range 31 {
		x := "x" + strings.Repeat("i", i)
		p.input(x, "f32[4]")
		sum = append(sum, x)
	}
	p.eq("add_any(%s)", strings.Join(sum, ", "))
	if in := p.plan(t, false).Instrs[0]; in.On || !strings.Contains(in.Why, "takes 33 buffers, want at most 31") {
		t.Errorf("a sum of 31: the host runs it because %q, want a reason with the number of buffers", in.Why)
	}
}

// TestChainCut has what f32 is computed in on the device, before and after a step in f64,
// although all of it is one chain on the host.
func TestChainCut(t *testing.T) {
	p := &program{in: []string{"x f32[8]", "y f32[8]"}}
	a := p.eq("exp(%s)", p.eq("add(x, y)"))
	wide := p.eq("sqrt(%s)", p.eq("convert_element_type(%s) dtype=f64", a))
	z := p.eq("mul(%s, y)", p.eq("neg(%s)", p.eq("convert_element_type(%s) dtype=f32", wide)))
	p.out = []string{z}
	var got []string
	for _, in := range p.plan(t, true).Instrs {
		got = append(got, fmt.Sprintf("%v %s: %s", in.On, in.Name(), in.Why))
	}
	require.Equal(t, []string{"true fused(add, exp): ",
		"false fused(convert_element_type, sqrt, convert_element_type): no elements of f64, only of f32, bf16, f16, f8_e4m3, f8_e5m2, i32, u32, u8 and bool",
		"true fused(neg, mul): "}, got)
}

// TestCutChainsRun runs chains that are cut where the GPU has no such elements: between the
// cuts the GPU computes what the host does. Constants and arguments are read on both sides
// of a cut, and a result of one side is read in several parts of the other.
func TestCutChainsRun(t *testing.T) {
	for _, c := range []struct {
		name  string
		in    []string
		wide  string // the type that the GPU does not have
		cuts  int
		start string // makes a of x and y, on the GPU
	}{
		{"f64", []string{"x f32[12]", "y f32[12]"}, "f64", 1, "add"},
		{"f64 twice", []string{"x f32[5,7]", "y f32[5,7]"}, "f64", 2, "mul"},
		{"f64 of bf16", []string{"x bf16[33]", "y bf16[33]"}, "f64", 2, "sub"},
		{"i64 of i32", []string{"x i32[16]", "y i32[16]"}, "i64", 3, "mul"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &program{in: c.in}
			d, shape, _ := strings.Cut(strings.TrimPrefix(c.in[0], "x "), "[")
			a := p.eq("%s(x, y)", c.start)
			k := p.eq("full() value=3 dtype=%s shape=[%s", d, shape)
			for range c.cuts {
				a = p.eq("add(%s, %s)", p.eq("abs(%s)", a), k)
				wide := p.eq("neg(%s)", p.eq("convert_element_type(%s) dtype=%s", a, c.wide))
				back := p.eq("convert_element_type(%s) dtype=%s", wide, d)
				a = p.eq("max(%s, %s)", p.eq("add(%s, %s)", back, a), p.eq("mul(%s, %s)", k, "y"))
			}
			p.out = []string{a}
			on, off := 0, 0
			for _, in := range p.plan(t, true).Instrs {
				if in.On {
					on++
					p.options.Instructions = append(p.options.Instructions, in.Name())
				} else {
					off++
				}
			}
			if on != c.cuts+1 || off != c.cuts {
				t.Fatalf("%d instructions are the GPU's and %d the host's, want %d and %d", on, off, c.cuts+1, c.cuts)
			}
			p.check(t, true)
		})
	}
}

// TestFlatShared has equal functions for equal chains, of other sizes and with other
// numbers, and others for other operations.
func TestFlatShared(t *testing.T) {
	name := func(typ, c, op string) string {
		p := &program{in: []string{"x " + typ, "y " + typ}}
		shape := typ[strings.Index(typ, "["):]
		k := p.eq("full() value=%s dtype=%s shape=%s", c, typ[:strings.Index(typ, "[")], shape)
		v := p.eq("mul(x, %s)", k)
		p.out = []string{p.eq("%s(%s, y)", op, v)}
		l := p.plan(t, true)
		require.Len(t, l.Instrs, 1)
		q, _, err := kernels.Build(kernels.Of(l, 0, 0))
		require.NoError(t, err)
		require.Len(t, q.Launches, 1)
		return q.Launches[0].Function
	}
	first := name("f32[8]", "2", "add")
	for _, c := range []struct {
		typ, c, op string
		same       bool
	}{{"f32[8]", "2", "add", true}, {"f32[16,3]", "7", "add", true}, {"f32[9]", "2", "add", false}, {"f32[8]", "2", "sub", false}, {"bf16[8]", "2", "add", false}} {
		if got := name(c.typ, c.c, c.op); (got == first) != c.same {
			t.Errorf("%+v has function %s, and the first %s", c, got, first)
		}
	}
}
