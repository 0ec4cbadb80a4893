package msl

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrors(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"kernel void f(device float* y) {\n double x = 1;\n}", "source:2: error: double: Metal has no double; use float"},
		{"# 40 \"a.metal\"\nkernel void f(device float* y) {\n y[0] = (float)1.0L;\n}", "a.metal:41: error: 1.0L is a long double; Metal has no double"},
		{"#line 7 \"b.metal\"\n\nvoid g() { goto x; }", "b.metal:8: error: goto: Metal does not have it"},
		{"void g() { auto p = new int; }", "source:1: error: new: Metal does not have it"},
		{"float g() { return std::max(1, 2); }", "source:1: error: std: Metal has no C++ standard library; its own is namespace metal"},
		{"kernel void f(device float* y, float x) {}", "source:1: error: parameter x of kernel f has no attribute that says what it is"},
		{"kernel void f(uint i [[thread_position_in_grid]], uint2 n [[threads_per_threadgroup]]) {}", "source:1: error: parameter n of kernel f has 2 components and others have 1; positions and sizes need as many all"},
		{"kernel void f(device int* a [[buffer(1)]], device int* b [[buffer(1)]]) {}", "source:1: error: parameters a and b of kernel f have the same index 1"},
		{"kernel void f(device int* a [[buffer(31)]]) {}", "source:1: error: buffer(31) of kernel f, want a number from 0 to 30"},
		{"kernel void f(device int* a [[buffer(N)]]) {}", "source:1: error: buffer(N) of kernel f, want a number from 0 to 30"},
		{"kernel void f() {}\nkernel void g() {}\ntemplate [[host_name(\"g\")]] [[kernel]] decltype(f) f;", "source:3: error: kernel g is declared twice"},
		{"template [[host_name(\"g\")]] [[kernel]] decltype(h<int>) h<int>;", "source:1: error: g instantiates h, which is no kernel template"},
		{"constant bool a [[function_constant(1)]];\nconstant bool b [[function_constant(1)]];", "source:2: error: function constants a and b have the same index 1"},
		{"constant bool a [[function_constant(N)]];", "source:1: error: function_constant(N), want a number"},
		{"void g() {\n threadgroup float a[4];\n}", "source:2: error: a threadgroup variable outside of a kernel; declare it in the kernel and pass a pointer"},
		{"kernel void f() { threadgroup float a[4], *p; }", "source:1: error: pointers and threadgroup variables in one declaration; declare them apart"},
		{"kernel void f() { threadgroup float a = 1; }", "source:1: error: a threadgroup variable that is initialised or has no name; threadgroup memory has no initial value"},
		{"kernel void f() { const threadgroup float a[4]; }", "source:1: error: a threadgroup variable in the middle of a declaration; begin it with threadgroup"},
	} {
		_, err := Rewrite(c.src)
		var e *Error
		if !errors.As(err, &e) || err.Error() != c.want {
			t.Errorf("%s\n%v\nwant\n%s", c.src, err, c.want)
		}
	}
}

// Words in comments and strings, and names that only begin as a word does, are nothing.
func TestNoErrors(t *testing.T) {
	_, err := Rewrite("// double, goto\n/* new */ kernel void f(device float* doubled) { doubled[0] = 0; }\nstruct S { int renew; };")
	require.NoError(t, err)
}

// The error of Rewrite must not be a nil *Error in an error.
func TestNilError(t *testing.T) {
	u, err := Rewrite("")
	if err != nil || u == nil {
		t.Fatal(u, err)
	}
}
