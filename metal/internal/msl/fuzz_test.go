package msl

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever it is given, the pre-pass returns, and keeps all lines.
func FuzzRewrite(f *testing.F) {
	src, err := os.ReadFile("testdata/kernels.metal")
	require.NoError(f, err)
	f.Add(string(src))
	for _, s := range []string{"[[", "]]", "kernel", "kernel void", "kernel void f(", "kernel void f() {", "template [[host_name(\"", "template [[host_name(\"a\")]]", "threadgroup", "{threadgroup", "kernel void f() { threadgroup",
		"constant", "constant x [[function_constant(", "constant [[function_constant(1)]]", "(half4", "(vec<", "vec<float", "static_cast<", "using", "using x =", "typedef", "typedef half4", "\"", "'\\", "/*", "1e+", "0x", "# 1", "#line", "<class", "#pragma \\\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		u, err := Rewrite(src)
		if err != nil {
			return
		}
		if a, b := strings.Count(src, "\n"), strings.Count(u.Source, "\n"); a < b {
			t.Errorf("%d lines became %d", a, b)
		}
		for _, k := range u.Kernels {
			k.Args()
		}
	})
}

// Tokens and what is between them are the source.
func FuzzLex(f *testing.F) {
	f.Add("a + b /* c */ // d\n#line 3\n\"e\\\"\" 1.5e-3f x->y ::z [[w]] 0x1p-3")
	f.Fuzz(func(t *testing.T, src string) {
		if strings.Contains(src, "#") {
			return // pragmas are dropped
		}
		var b strings.Builder
		for _, x := range lex(src) {
			b.WriteString(x.space)
			b.WriteString(x.text)
		}
		if b.String() != src {
			t.Errorf("%q became %q", src, b.String())
		}
	})
}
