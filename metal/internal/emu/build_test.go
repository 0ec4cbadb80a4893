package emu

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Errors are about lines of the source, whoever finds them.
func TestBuildErrors(t *testing.T) {
	c := compiler(t)
	for _, x := range []struct {
		source string
		lint   bool
		want   []string
	}{
		{"\nkernel void f(device float* y) {\n  double x = 1;\n}", false, []string{"test.metal:3: error: double: Metal has no double; use float"}},
		{"kernel void f(device float* y) {\n  y[0] = nothing;\n}", false, []string{"test.metal:2:", "error: use of undeclared identifier 'nothing'"}},
		{"#include \"other.h\"\n", false, []string{"test.metal:1:", "'other.h' file not found"}},
		{"#define A(x) float x[2]; x[3 +\nkernel void f(device float* y) {\n  A(z)\n}", false, []string{"test.metal:3:", "error: expected"}},
		{"#line 50 \"b.metal\"\nvoid g(float2 x) {}\nkernel void f(device float* y) { g(float3(1)); }", false, []string{"b.metal:51:", "no matching function"}},
		{"kernel void f(device float* y) { float4 v = float4(1, 2, 3); y[0] = v.x; }", false, []string{"test.metal:1:", "wrong number of components"}},
		{"kernel void f(device float* y) { y[0] = as_type<ushort>(1.0f); }", false, []string{"as_type needs types of one size"}},
		{"kernel void f(device float* y, uint i [[thread_position_in_grid]]) {\n  float* p = y; p[i] = 0;\n}", true, []string{"test.metal:2:", "cannot initialize a variable of type 'float *' with an lvalue of type 'device float *'"}},
		{"kernel void f(constant uint& n) { n = 3; }", true, []string{"test.metal:1:", "cannot assign to variable 'n' with const-qualified type"}},
		{"static float g(threadgroup float* p, device float* q) { return *p + *q; }\nkernel void f(device float* x, threadgroup float* m) {\n  x[0] = g(x, m);\n}", true, []string{"test.metal:3:", "no matching function for call to 'g'"}},
		{"kernel void f(device float* y) {\n  threadgroup float t[4];\n  device float* r = t; y[0] = r[0];\n}", true, []string{"test.metal:3:", "cannot initialize"}},
		{"template <typename T> void g(device T* y) { y[0] = T(0); }\ntemplate <typename T> kernel void f(device T* y, threadgroup T* m) {\n  g<T>(m);\n}\ntemplate [[host_name(\"f\")]] kernel decltype(f<float>) f<float>;", true, []string{"test.metal:3:", "no matching function"}},
		{"kernel void f(device float* y, threadgroup float* m) {\n  device float* r = (device float*)m; y[0] = r[0];\n}", true, []string{"test.metal:2:", "a cast must not change the address space of a pointer"}},
		{"template <typename T> void g(device T* y) { y[0] = T(0); }\ntemplate <typename T> kernel void f(device T* y, threadgroup T* m) {\n  g<T>(m);\n}\ntemplate [[host_name(\"f\")]] kernel decltype(f<float>) f<float>;", true, []string{"test.metal:3:", "no matching function"}},
		{"kernel void f(device float* y, threadgroup float* m) {\n  device float* r = reinterpret_cast<device float*>(m); y[0] = r[0];\n}", true, []string{"test.metal:2:", "reinterpret_cast"}},
	} {
		_, err := c.Build(t.Context(), prelude+x.source, BuildOptions{Lint: x.lint})
		var b *BuildError
		if !errors.As(err, &b) {
			t.Errorf("%s\n%v, want a BuildError", x.source, err)
			continue
		}
		for _, w := range x.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s\n%v\nwant %s", x.source, err, w)
			}
		}
	}
}

// A source that was built is not built again, by any process, and every other
// source, mode and header makes another.
func TestCache(t *testing.T) {
	c := compiler(t)
	c.cache = t.TempDir()
	const source = "kernel void f(device float* y) { y[0] = 1; }"
	first, err := c.Build(t.Context(), source, BuildOptions{})
	require.NoError(t, err)
	info, err := os.Stat(first)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			other := compiler(t) // of another process: with locks of its own
			other.cache = c.cache
			path, err := other.Build(t.Context(), source, BuildOptions{})
			if err != nil || path != first {
				t.Error(path, err)
			}
			path, err = other.Build(t.Context(), source, BuildOptions{Leader: true})
			if err != nil || path == first {
				t.Error(path, err)
			}
		})
	}
	wg.Wait()
	again, err := os.Stat(first)
	require.NoError(t, err)
	require.Equal(t, info.ModTime(), again.ModTime())
	left, err := filepath.Glob(filepath.Join(c.cache, "*"))
	require.NoError(t, err)
	require.Len(t, left, 3, "two libraries and the runtime; temporary directories are gone: %v", left)
	l, err := Open(first)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// A build ends with its context and leaves nothing.
func TestBuildEnds(t *testing.T) {
	c := compiler(t)
	c.cache = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Build(ctx, "kernel void f() {}", BuildOptions{})
	require.ErrorIs(t, err, context.Canceled)
	left, err := filepath.Glob(filepath.Join(c.cache, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestBuildNative(t *testing.T) {
	c := compiler(t)
	path, err := c.BuildNative(t.Context(), "#define MSL_ABI_TYPES_ONLY\n#include \"abi.h\"\nextern \"C\" __attribute__((visibility(\"default\"))) int answer() { return sizeof(msl_dispatch); }")
	require.NoError(t, err)
	require.FileExists(t, path)
	_, err = Open(path)
	require.ErrorContains(t, err, "is no library of kernels")
	_, err = c.BuildNative(t.Context(), "int x = y;")
	require.ErrorContains(t, err, "undeclared identifier")
}

func TestFind(t *testing.T) {
	c := compiler(t)
	t.Setenv("GOMOE_CACHE", "/somewhere")
	t.Setenv("GOMOE_CLANG", c.Path)
	named, err := Find()
	require.NoError(t, err)
	require.Equal(t, c.Path, named.Path)
	require.Equal(t, "/somewhere/emu", named.cache)

	t.Setenv("GOMOE_CLANG", "/no/such/clang")
	_, err = Find()
	require.ErrorIs(t, err, ErrNoCompiler)
	require.ErrorContains(t, err, "/no/such/clang")

	old := filepath.Join(t.TempDir(), "clang")
	require.NoError(t, os.WriteFile(old, []byte("#!/bin/sh\necho Debian clang version 14.0.6\n"), 0o755))
	t.Setenv("GOMOE_CLANG", old)
	_, err = Find()
	require.ErrorIs(t, err, ErrNoCompiler)
	require.ErrorContains(t, err, "version 14, want at least 17")

	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	t.Setenv("GOMOE_CLANG", sh)
	_, err = Find()
	require.ErrorIs(t, err, ErrNoCompiler)
}
