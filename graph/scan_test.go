package graph

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scanned is a loop inside a loop, whose bodies use values from around them.
func scanned(t *testing.T) *Program {
	p, err := Trace("p", func(tr *Tracer) []*Value {
		x, c, xs := tr.Input("x", F32, 2), tr.Input("c", F32, 2), tr.Input("xs", F32, 3, 2)
		one := tr.Apply(FullOp{Value: 1, DType: F32, Shape: []int{2}})[0]
		last, made := Scan(ScanParams{}, []*Value{x}, []*Value{xs}, func(carry, each []*Value) ([]*Value, []*Value) {
			inner, _ := Scan(ScanParams{Length: 2, Reverse: true}, carry, nil, func(carry, _ []*Value) ([]*Value, []*Value) {
				return []*Value{Apply1(AddAnyOp{}, c, carry[0], each[0], one)}, nil
			})
			return inner, []*Value{Apply1(AddAnyOp{}, inner[0], each[0]).Named("y")}
		})
		return []*Value{last[0], made[0]}
	})
	require.NoError(t, err)
	return p
}

func TestScanText(t *testing.T) {
	p := scanned(t)
	require.NoError(t, Check(p))
	want := `program p(x f32[2], c f32[2], xs f32[3,2]) {
	v1 f32[2] = full() value=1 dtype=f32 shape=[2]
	v2 f32[2], v3 f32[3,2] = scan(c, x, xs) length=3 consts=1 carry=1 body=program body(c f32[2], x f32[2], xs f32[2]) {
		v1 f32[2] = scan(c, xs, x) length=2 consts=2 carry=1 reverse=true body=program body(c f32[2], xs f32[2], x f32[2]) {
			v1 f32[2] = full() value=1 dtype=f32 shape=[2]
			v2 f32[2] = add_any(c, x, xs, v1)
			return v2
		}
		y f32[2] = add_any(v1, xs)
		return v1, y
	}
	return v2, v3
}
`
	require.Equal(t, want, p.String())
	q, err := Parse("p.graph", want)
	require.NoError(t, err)
	require.NoError(t, Check(q))
	require.Equal(t, want, q.String())
	require.True(t, EqualPrimitive(p.Eqns[1].Prim, q.Eqns[1].Prim))
}

func TestScanMistakes(t *testing.T) {
	var leaked *Value
	same := func(carry, x []*Value) ([]*Value, []*Value) { return carry, nil }
	for want, loop := range map[string]func(x, xs *Value){
		"carried value 0 as f32[3,2], want f32[2]": func(x, xs *Value) {
			Scan(ScanParams{Length: 2}, []*Value{x}, nil, func(_, _ []*Value) ([]*Value, []*Value) { return []*Value{xs}, nil })
		},
		"returns 0 carried values, want 1": func(x, xs *Value) {
			Scan(ScanParams{Length: 2}, []*Value{x}, nil, func(_, _ []*Value) ([]*Value, []*Value) { return nil, nil })
		},
		"length 0, want the number of iterations": func(x, xs *Value) { Scan(ScanParams{}, []*Value{x}, nil, same) },
		"is f32[3,2], want a leading dimension of 2": func(x, xs *Value) {
			Scan(ScanParams{Length: 2}, []*Value{x}, []*Value{xs}, same)
		},
		"table 0 has 2 arrays, want 3": func(x, xs *Value) {
			Scan(ScanParams{Tables: [][]*Value{{x, x}}}, []*Value{x}, []*Value{xs}, same)
		},
		"table 0 has no arrays, which would give the type": func(x, xs *Value) { Scan(ScanParams{Tables: [][]*Value{{}}}, []*Value{x}, nil, same) },
		"length -1, want the number of iterations":         func(x, xs *Value) { Scan(ScanParams{Length: -1}, []*Value{x}, nil, same) },
		"is f32[3,2], want a leading dimension of 0": func(x, xs *Value) {
			Scan(ScanParams{}, []*Value{x}, []*Value{x.tr.Apply(FullOp{DType: F32, Shape: []int{0, 2}})[0], xs}, same)
		},
		"array 1 of table 0 is f32[3,2], want f32[2]": func(x, xs *Value) {
			Scan(ScanParams{Tables: [][]*Value{{x, xs}}}, []*Value{x}, nil, same)
		},
		"carried value 0 is nil": func(x, xs *Value) { Scan(ScanParams{}, []*Value{nil}, []*Value{xs}, same) },
		"no value to carry":      func(x, xs *Value) { Scan(ScanParams{Length: 2}, nil, nil, same) },
		"add_any(): an argument belongs to the body of a loop; return it": func(x, xs *Value) {
			Scan(ScanParams{Length: 2}, []*Value{x}, nil, func(carry, _ []*Value) ([]*Value, []*Value) {
				leaked = Apply1(AddAnyOp{}, carry[0], carry[0])
				return carry, nil
			})
			Apply1(AddAnyOp{}, x, leaked)
		},
	} {
		_, err := Trace("p", func(tr *Tracer) []*Value {
			loop(tr.Input("x", F32, 2), tr.Input("xs", F32, 3, 2))
			return nil
		})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "scan_test.go:")
	}
}

func TestScanInfer(t *testing.T) {
	body := "body=program b(x f32[2], y f32[2]) {\n return x, y\n }"
	for line, want := range map[string]string{
		"scan(x, xs) length=3 carry=1":                                                                 "body is missing",
		"scan(x, xs) carry=1 " + body:                                                                  "scan: parameter length is missing; write length= and its value, even if that is zero",
		"scan(x, xs) length=-1 carry=1 " + body:                                                        "length is -1, want 0 to 2147483647",
		"scan(x, xs) length=0 carry=1 " + body:                                                         "argument 1 is f32[3,2], want f32[0,2]",
		"scan(x, x) length=0 carry=1 in_tables=[0] " + body:                                            "2 arguments, want 1",
		"scan(x) length=0 carry=1 in_tables=[0] out_tables=[0] " + body:                                "1 results, but names for 2",
		"scan(x, xs) length=3000000000 carry=1 " + body:                                                "length is 3000000000, want 0 to",
		"scan(x, xs) length=3 carry=3 " + body:                                                         "carry is 3, but the body b has 2 inputs",
		"scan(x, xs) length=3 consts=-1 carry=1 " + body:                                               "consts is -1",
		"scan(x, xs) length=2 carry=1 " + body:                                                         "argument 1 is f32[3,2], want f32[2,2]",
		"scan(xs, x) length=2 carry=1 " + body:                                                         "argument 0, a carried value, is f32[3,2]",
		"scan(x) length=3 carry=1 " + body:                                                             "1 arguments, want 1 for input y",
		"scan(x, xs, x) length=3 carry=1 " + body:                                                      "3 arguments, want 2",
		"scan(x, x, x) length=3 carry=1 in_tables=[0] " + body:                                         "3 arguments, want 3 for input y of an iteration, from argument 1",
		"scan(x, xs) length=3 carry=1 in_tables=[1] " + body:                                           "in_tables: [1], want numbers below 1",
		"scan(x, xs) length=2000000 carry=1 out_tables=[0] " + body:                                    "want at most 1048576 results in tables",
		"scan(x, xs) length=3 carry=1 body=program b(x f32[2]) {\n oops":                               "want",
		strings.Repeat("scan(x) length=1 carry=1 body=program b(x f32[2]) {\n v1 = ", 101) + "scan(x)": "more than 100 deep",
	} {
		_, err := Parse("p.graph", "program p(x f32[2], xs f32[3,2]) {\n a, b = "+line+"\n return a\n}\n")
		require.ErrorContains(t, err, want, line)
	}
}
