package graph

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	p, err := Parse("dir/moe.txt", texts["layer"], toys()...)
	require.NoError(t, err)
	require.Equal(t, "moe", p.Name)
	require.Len(t, p.Eqns, 2)
	require.Equal(t, Pos{File: "dir/moe.txt", Line: 3}, p.Eqns[1].Pos)
	require.Equal(t, "h", p.Eqns[0].Out[0].Name)
	require.Equal(t, "", p.Eqns[1].Out[0].Name, "v1 is the printer's name, not the value's")
	require.Equal(t, toyTopK{K: 2}, p.Eqns[1].Prim)

	// The parameters are those of the text, the rest is the prototype's.
	p, err = Parse("p", texts["kinds"], toys()...)
	require.NoError(t, err)
	require.Equal(t, toyAll{hidden: 7}, p.Eqns[1].Prim)
	require.Equal(t, &toyShare{"t"}, p.Eqns[5].Prim)

	// The trace has ended: its values cannot be built on.
	_, err = Trace("q", func(*Tracer) []*Value { return Apply(toyUnary{"neg"}, p.Out[0]) })
	require.ErrorContains(t, err, "the trace has ended")
}

func TestParseLibrary(t *testing.T) {
	_, err := Parse("p", texts["empty"], nil)
	require.EqualError(t, err, "graph: parse: primitive 0 of the library is nil")
	_, err = Parse("p", texts["empty"], toyUnary{"dot"}, toyDot{})
	require.EqualError(t, err, "graph: parse: primitive dot is given twice, as graph.toyUnary and as graph.toyDot")
	_, err = Parse("p", texts["empty"], FullOp{}, AddAnyOp{}, CustomOp{}, toyDot{1, 1})
	require.NoError(t, err)
}

func TestParseErrors(t *testing.T) {
	// body returns a program with inputs x and w that has s from line 2 on.
	body := func(s string) string {
		return "program p(x f32[4,2], w f32[2,3]) {\n" + s + "\n\treturn x\n}\n"
	}
	const huge = "99999999999999999999"
	tests := []struct{ text, want string }{
		// The file.
		{"", `moe.txt:1: found the end of the file, want program`},
		{"\n\nmodule p() {", `moe.txt:3: found "module", want program`},
		{"program", `moe.txt:1: found the end of the file, want the name of the program`},
		{"program 3", `moe.txt:1: found "3", want the name of the program`},
		{"program p {", `moe.txt:1: found "{", want ( and the inputs of program p`},
		{"program p(", `moe.txt:1: found the end of the file, want the name of an input`},
		{"program p(x", `moe.txt:1: found the end of the file, want the type of input x`},
		{"program p(x f32[]", `moe.txt:1: found the end of the file, want , or )`},
		{"program p(x f32[],) {", `moe.txt:1: found ")", want the name of an input`},
		{"program p(\nx f32[]) {", `moe.txt:1: found the end of the line, want the name of an input`},
		{"program p()\n{", `moe.txt:1: found the end of the line, want { behind the inputs`},
		{"program p() { return }", `moe.txt:1: found "return", want the end of the line behind {`},
		{"program p() {\n}", `moe.txt:2: found "}", want a line that begins with return; program p has none`},
		{"program p() {\n", `moe.txt:2: found the end of the file, want a line that begins with return; program p has none`},
		{"program p() {\nreturn }", `moe.txt:2: found "}", want the name of a result`},
		{"program p() {\nreturn\nreturn", `moe.txt:3: found "return", want } behind the line with return`},
		{"program p() {\nreturn\n} p", `moe.txt:3: found "p", want the end of the line behind }`},
		{"program p() {\nreturn\n}\n\n\"x\"", `moe.txt:5: found "x", want program or the end of the file`},
		{"program p() {\nreturn\n}\nprogram p() {\nreturn\n}", `moe.txt:4: program p is defined already; give each program of the file its own name`},
		{"program p() {\nreturn\n}\nprogram q(", `moe.txt:4: found the end of the file, want the name of an input`},

		// Inputs and types.
		{"program p(x f32[], x f32[]) {", `moe.txt:1: value x is defined already, on line 1; give each value its own name`},
		{"program p(return f32[]) {", `moe.txt:1: return is a word of the text form; as the name of an input write it in quotes`},
		{"program p(x float[]) {", `moe.txt:1: type of input x: element type "float" is unknown, want one of bool u8 u32 i32 i64 f8_e4m3 f8_e5m2 f16 bf16 f32 f64, or for weights q8_0 q4_k q6_k q2_k iq2_xxs mxfp4 q4_0 q4_1 q5_0 q5_1 q3_k q5_k iq3_xxs iq4_nl iq4_xs`},
		{"program p(x none[]) {", `moe.txt:1: type of input x: element type "none" is unknown, want one of bool u8 u32 i32 i64 f8_e4m3 f8_e5m2 f16 bf16 f32 f64, or for weights q8_0 q4_k q6_k q2_k iq2_xxs mxfp4 q4_0 q4_1 q5_0 q5_1 q3_k q5_k iq3_xxs iq4_nl iq4_xs`},
		{"program p(x f32) {", `moe.txt:1: found ")", want [ and the sizes, [] for a scalar`},
		{"program p(x f32[a]) {", `moe.txt:1: found "a", want the size of a dimension`},
		{"program p(x f32[1.5]) {", `moe.txt:1: found "1.5", want the size of a dimension`},
		{"program p(x f32[-1]) {", `moe.txt:1: type of input x: size -1 is negative or does not fit in an int`},
		{"program p(x f32[" + huge + "]) {", `moe.txt:1: type of input x: size ` + huge + ` is negative or does not fit in an int`},
		{"program p(x f32[" + strings.Repeat("1", 99) + "]) {", `moe.txt:1: type of input x: size ` + strings.Repeat("1", 40) + `... is negative or does not fit in an int`},
		{"program p(x f32[4294967296,4294967296]) {", `moe.txt:1: input x: f32[4294967296,4294967296] has more bytes than fit in 63 bits`},
		{"program p(x f32[2@ep]) {", `moe.txt:1: character '@' is not part of any program; placements are given apart from it, and a matrix product is dot_general(x, y)`},

		// Equations.
		{body("= neg(x)"), `moe.txt:2: found "=", want an equation or return`},
		{body("y f32[4,2]"), `moe.txt:2: found the end of the line, want , or =`},
		{body("y, = neg(x)"), `moe.txt:2: found "=", want the name of a value`},
		{body("y = (x)"), `moe.txt:2: found "(", want the name of a primitive`},
		{body("y = neg"), `moe.txt:2: found the end of the line, want ( and the arguments of neg`},
		{body("y = neg(x"), `moe.txt:2: found the end of the line, want , or )`},
		{body("y = neg(x,)"), `moe.txt:2: found ")", want the name of an argument`},
		{body("y = neg(neg(x))"), `moe.txt:2: found neg(, want a value; calls do not nest, so give its result a name on a line above`},
		{body("y = neg(x) z = neg(y)"), `moe.txt:2: neg has no parameter z, it has none`},
		{body("y = neg(x), z"), `moe.txt:2: found ",", want the end of the line behind the equation`},
		{body("y = nge(x)"), `moe.txt:2: primitive nge is unknown; did you mean neg?`},
		{body("y = topk(x)"), `moe.txt:2: primitive topk is unknown; did you mean top_k?`},
		{body("y = convolution(x)"), `moe.txt:2: primitive convolution is unknown; the reference lists them all`},
		{body("hidden = neg(x)\nz = neg(hiden)"), `moe.txt:3: value hiden is not defined above; did you mean hidden?`},
		{body("y = neg(y)"), `moe.txt:2: value y is not defined above`},
		{body("x = neg(w)"), `moe.txt:2: value x is defined already, on line 1; give each value its own name`},
		{body("y = neg(w)\ny = neg(w)"), `moe.txt:3: value y is defined already, on line 2; give each value its own name`},
		{body("y, y = top_k(x) k=1"), `moe.txt:2: value y is defined already, on line 2; give each value its own name`},
		{body("program = neg(w)"), `moe.txt:2: program is a word of the text form; as the name of a value write it in quotes`},
		{body("y = top_k(x) k=1"), `moe.txt:2: top_k(f32[4,2]): 2 results, but names for 1`},
		{body("y, z, u = top_k(x) k=1"), `moe.txt:2: top_k(f32[4,2]): 2 results, but names for 3`},
		{body("neg(x)"), `moe.txt:2: neg(f32[4,2]): 1 results, but names for 0`},
		{body("y f32[4,1], z f32[4,1] = top_k(x) k=1"), `moe.txt:2: top_k(f32[4,2]): result z is i32[4,1], but its line says f32[4,1]`},
		{body("y f32[4] = neg(x)"), `moe.txt:2: neg(f32[4,2]): result y is f32[4,2], but its line says f32[4]`},
		{body("y = neg(x, w)"), `moe.txt:2: neg(f32[4,2], f32[2,3]): 2 arguments, want 1`},
		{body("y = dot(x, w)"), `moe.txt:2: dot(f32[4,2], f32[2,3]): contracted sizes are 4 and 2, want equal ones`},
		{body("y = full() dtype=f64 shape=[4294967296,4294967296]"), `moe.txt:2: full(): the result f64[4294967296,4294967296] has more bytes than fit in 63 bits`},
		{body("y = panic(x) at=2"), `moe.txt:2: panic(f32[4,2]): the primitive's Infer panics at toy_test.go:97: runtime error: index out of range [2] with length 1`},

		// Parameters.
		{body("y, z = top_k(x) kk=1"), `moe.txt:2: top_k has no parameter kk, it has k axis`},
		{body("y, z = top_k(x) k=1 axis=0 k=1"), `moe.txt:2: top_k: parameter k is given twice`},
		{body("y, z = top_k(x) k 1"), `moe.txt:2: top_k: parameter k: found "1", want = and its value`},
		{body("y, z = top_k(x) k="), `moe.txt:2: top_k: parameter k: found the end of the line, want an integer`},
		{body("y, z = top_k(x) k=1.0"), `moe.txt:2: top_k: parameter k: found "1.0", want an integer`},
		{body("y, z = top_k(x) k=[1]"), `moe.txt:2: top_k: parameter k: found "[", want an integer`},
		{body("y, z = top_k(x) k=" + huge), `moe.txt:2: top_k: parameter k: ` + huge + ` does not fit in an int`},
		{body("y = all(x) i64=-" + huge), `moe.txt:2: all: parameter i64: -` + huge + ` does not fit in an int64`},
		{body("y = all(x) u=-1"), `moe.txt:2: all: parameter u: found "-1", want an unsigned integer`},
		{body("y = all(x) u=" + huge), `moe.txt:2: all: parameter u: ` + huge + ` does not fit in a uint64`},
		{body("y = all(x) f=1e999"), `moe.txt:2: all: parameter f: 1e999 does not fit in a float64`},
		{body("y = all(x) half=1e39"), `moe.txt:2: all: parameter half: 1e39 does not fit in a float32`},
		{body("y = all(x) f=infinity"), `moe.txt:2: all: parameter f: found "infinity", want a number`},
		{body("y = all(x) ok=1"), `moe.txt:2: all: parameter ok: found "1", want true or false`},
		{body("y = all(x) ok"), `moe.txt:2: all: parameter ok: found the end of the line, want = and its value`},
		{body("y = all(x) mode=fast"), `moe.txt:2: all: parameter mode: found "fast", want a quoted string`},
		{body("y = all(x) axes=1"), `moe.txt:2: all: parameter axes: found "1", want a list of integers`},
		{body("y = all(x) axes=[1"), `moe.txt:2: found the end of the line, want , or ]`},
		{body("y = all(x) axes=[[1]]"), `moe.txt:2: all: parameter axes: found "[", want an integer`},
		{body("y = all(x) groups=[1]"), `moe.txt:2: all: parameter groups: found "1", want a list of integers`},
		{body("y = all(x) groups=" + strings.Repeat("[", 100000)), `moe.txt:2: all: parameter groups: found "[", want an integer`},
		{body("y = all(x) names=[x]"), `moe.txt:2: all: parameter names: found "x", want a quoted string`},
		{body("y = all(x) dtype=fp32"), `moe.txt:2: all: parameter dtype: element type "fp32" is unknown, want one of bool u8 u32 i32 i64 f8_e4m3 f8_e5m2 f16 bf16 f32 f64, or for weights q8_0 q4_k q6_k q2_k iq2_xxs mxfp4 q4_0 q4_1 q5_0 q5_1 q3_k q5_k iq3_xxs iq4_nl iq4_xs`},
		{body(`y = all(x) dtype="f32"`), `moe.txt:2: all: parameter dtype: found "f32", want an element type`},
		{body("y = all(x) fn=p"), `moe.txt:2: all: parameter fn: program p is not defined above`},
		{body("y = all(x) fn=3"), `moe.txt:2: all: parameter fn: found "3", want a program`},
		{body("y = all(x) hidden=3"), `moe.txt:2: all has no parameter hidden, it has axes i i64 u f half ok mode groups names ratios dtype fn`},
		{body("y = odd(x) f=3"), `moe.txt:2: odd: parameter f is a func(), which no text can hold`},

		// Tokens.
		{body(`y = all(x) mode="a`), `moe.txt:2: string is not closed or has a wrong escape; it is written as in Go`},
		{body(`y = all(x) mode="\q"`), `moe.txt:2: string is not closed or has a wrong escape; it is written as in Go`},
		{body("y = all(x) i=12ab"), `moe.txt:2: "12ab" is no number`},
		{body("y = all(x) i=0x10"), `moe.txt:2: "0x10" is no number`},
		{body("y = all(x) i=1_000"), `moe.txt:2: "1_000" is no number`},
		{body("y = all(x) f=1e"), `moe.txt:2: "1e" is no number`},
		{body("y = all(x) f=-"), `moe.txt:2: "-" is no number`},
		{body("y = all(x) f=-nan"), `moe.txt:2: "-nan" is no number`},
		{body("y = all(x) f=.5"), `moe.txt:2: character '.' is not part of any program`},
		{body("ÿ = neg(x)"), `moe.txt:2: character 'ÿ' is not part of any program`},
		{body("y = neg(x) \xff"), `moe.txt:2: character '�' is not part of any program`},
		{body(strings.Repeat("é", 50)), `moe.txt:2: character 'é' is not part of any program`},
		{body(`y = neg("` + strings.Repeat("é", 50) + `")`), `moe.txt:2: value ` + strings.Repeat("é", 20) + `... is not defined above`},
		{body("y = all(x) mode=[\"" + strings.Repeat("é", 50) + `"]`), `moe.txt:2: all: parameter mode: found "[", want a quoted string`},

		// Names in quotes, and scopes.
		{body(`"" = neg(x)`), `moe.txt:2: found "", want the name of a value, which is not empty`},
		{body(`"x" = neg(w)`), `moe.txt:2: value x is defined already, on line 1; give each value its own name`},
		{body(`"a.b" = neg(w)` + "\n" + `c = neg("a.c")`), `moe.txt:3: value a.c is not defined above; did you mean a.b?`},
		{body("y = neg(return)"), `moe.txt:2: return is a word of the text form; as the name of an argument write it in quotes`},
		{body(`y = "neg"(x)`), `moe.txt:2: found "neg", want the name of a primitive`},
		{body(`"neg"(x)`), `moe.txt:2: found "(", want , or =`},
		{body(`scope ""`), `moe.txt:2: the name of a scope is empty; leave the scope out`},
		{body(`scope "a\nb"`), `moe.txt:2: scope "a\nb": want characters that can be printed`},
		{body(`scope "a" y`), `moe.txt:2: found "y", want the end of the line behind the scope`},
		{body("scope f32[2]"), `moe.txt:2: found the end of the line, want , or =`},
		{body(`scope "a"` + "\ny = neg(x, w)"), `moe.txt:3 (a): neg(f32[4,2], f32[2,3]): 2 arguments, want 1`},
	}
	for _, tt := range tests {
		p, err := Parse("dir/moe.txt", tt.text, toys()...)
		if err == nil {
			t.Errorf("%s\nparses as\n%s\nwant %s", clip(tt.text), p, tt.want)
			continue
		}
		if err.Error() != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.text[:min(len(tt.text), 200)], err, tt.want)
		}
		var at *Error
		if !errors.As(err, &at) || at.Pos.File != "dir/moe.txt" {
			t.Errorf("%s: error %#v, want a *graph.Error in dir/moe.txt", tt.want, err)
		}
	}
}

// A text of a megabyte is parsed quickly, whatever it repeats.
func TestParseLarge(t *testing.T) {
	const n = 1 << 17
	for _, text := range []string{
		strings.Repeat("\n", n),
		strings.Repeat("#", n),
		strings.Repeat("(", n),
		"program " + strings.Repeat("a", n),
		"program p(x f32[" + strings.Repeat("1,", n),
		"program p(x f32[2]) {\n y = " + strings.Repeat("n", n) + "(x)",
		"program p(x f32[2]) {\n" + strings.Repeat("z", n) + " = neg(x)\n return " + strings.Repeat("y", n),
		"program p(x f32[2]) {\n y = all(x) f=" + strings.Repeat("9", n),
		"program p(x f32[2]) {\n y = all(x) mode=\"" + strings.Repeat(`\n`, n),
		"program p(x f32[2]) {\n y = add_any(" + strings.Repeat("x,", n),
	} {
		_, err := Parse("p", text, toys()...)
		if err == nil {
			t.Errorf("%s parses", clip(text))
		} else if len(err.Error()) > 300 {
			t.Errorf("%s: error of %d bytes, want a line", clip(text), len(err.Error()))
		}
	}
}

// FuzzParse checks the two promises of the parser: any text gives a program or an
// error, and parsing a program's text gives the same program.
func FuzzParse(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	for _, text := range []string{
		"program p(x f32[0,9223372036854775807]) {\n\treturn x\n}\n",
		"program p(v1 f32[2]) {\n\tv01 = neg(v1)\n\tv_1, h = top_k(v01)\n\treturn v_1\n}\n",
		"program p(x f32[4611686018427387904]) {\n\tv2, h = top_k(x) k=-1\n\treturn h # x\n}\n",
		"program p(x f32[2]) {\n\ty = panic() at=-1\n\treturn y\n}\n",
		"program p(x q4_k[2,3,256], y mxfp4[0]) {\n\treturn x, y\n}\n",
		"program p(x q8_0[9223372036854775808,32]) {\n\treturn x\n}\nprogram q(x iq2_xxs[4611686018427387904,256]) {\n\treturn x\n}\n",
		"program p() {\n\tx = full() dtype=q6_k shape=[256]\n\treturn x\n}\nprogram q(x q2_k[]) {\n\ty = all(x) dtype=q2_k\n\treturn y\n}",
		"program p() {\n\tx = full() dtype=i64 value=1e-400 shape=[-1]\n\treturn\n}\nprogram q() {\nreturn\n}",
		"program p() {\n\treturn\n}\nprogram q(x f32[]) {\n\ty = custom_vjp(x) fn=p vjp=p\n\treturn\n}",
		"program p(x f32[2]) {\n\ty = all(x) mode=\"\\x00\\u2028\" names=[\"#\",\"\\n\"] ratios=[-0.0,1e+5,007]\n\treturn y\n}\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse("p", text, toys()...)
		if err != nil {
			if p != nil {
				t.Fatal("both a program and an error")
			}
			return
		}
		if err := Check(p); err != nil {
			t.Fatal(err)
		}
		printed := p.String()
		q, err := Parse("p", printed, toys()...)
		if err != nil {
			t.Fatalf("%v in the printed\n%s", err, printed)
		}
		if again := q.String(); again != printed {
			t.Fatalf("printed\n%s\nand then\n%s", printed, again)
		}
		for i, e := range p.Eqns {
			if !EqualPrimitive(e.Prim, q.Eqns[i].Prim) {
				t.Fatalf("equation %d is %#v, and then %#v", i, e.Prim, q.Eqns[i].Prim)
			}
		}
	})
}

// A text whose primitives nobody has given is refused with what to do.
func TestParseWithoutLibrary(t *testing.T) {
	_, err := Parse("p.graph", "program p(x f32[2]) {\n\ty = neg(x)\n\treturn y\n}")
	require.EqualError(t, err, "p.graph:2: primitive neg is unknown: Parse was given no primitives; pass it primitives.All()..., or call gomoe.Parse")
}
