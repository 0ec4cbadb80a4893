package kernels_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/metaltest"
)

// sources are the names of the package's files in Metal's language.
func sources(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("*.metal")
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// builds compiles a text as for both ways to hold matrices, with the lint of address spaces,
// and returns its kernels.
func builds(t *testing.T, name, text string) []emu.Kernel {
	t.Helper()
	var found []emu.Kernel
	for _, o := range []emu.BuildOptions{{Lint: true}, {Leader: true}} { // as package metaltest, which has them already
		o.Tensors = strings.HasPrefix(text, "#define TENSOR_OPS\n")
		l, err := metaltest.Library(t.Context(), text, o)
		metaltest.Compiled(t, err, "%s, %+v", name, o)
		found = l.Kernels()
	}
	return found
}

// Every file compiles, and the kernels in them are those that package kernels lists.
func TestSources(t *testing.T) {
	there, listed := map[string]string{}, map[string]string{}
	for _, file := range sources(t) {
		text, _, err := kernels.TensorText(file)
		require.NoError(t, err)
		for _, k := range builds(t, file, text) {
			there[k.Name] = file
		}
	}
	for _, k := range kernels.All() {
		for _, f := range k.Functions {
			listed[f.Name] = k.Name
			if there[f.Name] == "" {
				t.Errorf("kernel %s lists the function %s, which no file has", k.Name, f.Name)
			}
		}
	}
	for _, f := range slices.Sorted(maps.Keys(there)) {
		if listed[f] == "" {
			t.Errorf("%s has the function %s, which no kernel lists", there[f], f)
		}
	}
}

var (
	comment  = regexp.MustCompile(`//[^\n]*|(?s)/\*.*?\*/`)
	doubles  = regexp.MustCompile(`\bdouble\b`)
	braces   = regexp.MustCompile(`\b(?:u?(?:char|short|int|long)|half|float|bfloat|bool)[234]\s*(?:\w+\s*)?(?:=\s*)?\{`)
	position = regexp.MustCompile(`(\w+)\s+\w+\s*\[\[((?:thread|threadgroup|threads|threadgroups|dispatch_threads)_(?:position_in|per)_(?:grid|threadgroup))\]\]`)
	index    = regexp.MustCompile(`(\w+)\s+\w+\s*\[\[((?:thread|simdgroup)_index_in_\w+|simdgroups_per_threadgroup|threads_per_simdgroup)\]\]`)
)

// broken returns what a text does that Metal's compilers do not take, and others do.
func broken(text string) []string {
	var out []string
	text = comment.ReplaceAllString(text, "")
	if doubles.MatchString(text) {
		out = append(out, "double: Metal has none")
	}
	for _, m := range braces.FindAllString(text, -1) {
		out = append(out, fmt.Sprintf("%q: a vector is made by a call", m))
	}
	for _, k := range strings.Split(text, "kernel void ")[1:] {
		head, _, _ := strings.Cut(k, "{")
		name, _, _ := strings.Cut(head, "(")
		first := ""
		for _, m := range position.FindAllStringSubmatch(head, -1) {
			if !slices.Contains([]string{"uint", "uint2", "uint3"}, m[1]) {
				out = append(out, fmt.Sprintf("%s: %s is %s, want uint, uint2 or uint3", name, m[2], m[1]))
			}
			if first == "" {
				first = m[1]
			}
			if m[1] != first {
				out = append(out, fmt.Sprintf("%s: %s is %s and another place %s: they have as many dimensions", name, m[2], m[1], first))
			}
		}
		for _, m := range index.FindAllStringSubmatch(head, -1) {
			if m[1] != "uint" {
				out = append(out, fmt.Sprintf("%s: %s is %s, want uint", name, m[2], m[1]))
			}
		}
	}
	return append(out, unrolled(text)...)
}

var (
	matrices = regexp.MustCompile(`\bsimdgroup_(?:\w+8x8|matrix<[^>]*>)\s*\*?\s*((?:\w+\[[^;]*?\]+,?\s*)+|\w+\s*,)`)
	named    = regexp.MustCompile(`(\w+)(?:\[|\s*,$)`)
	loop     = regexp.MustCompile(`(UNROLL\s+)?for \(int (\w+) = 0; \w+ < ([^;]*);`)
)

// unrolled returns the loops over matrices that are not unrolled, or that count to what is no
// constant: an array of matrices that has an index at run time lies in memory.
func unrolled(text string) []string {
	var out []string
	arrays := map[string]bool{}
	for _, m := range matrices.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[0], "[") || strings.Contains(m[0], "*") {
			for _, n := range named.FindAllStringSubmatch(m[1], -1) {
				arrays[n[1]] = true
			}
		}
	}
	for _, m := range loop.FindAllStringSubmatchIndex(text, -1) {
		name, bound := text[m[4]:m[5]], text[m[6]:m[7]]
		body := text[m[1]:]
		if next := loop.FindStringIndex(body); next != nil && strings.Contains(body[:next[0]], "}") {
			body = body[:next[0]]
		}
		for a := range arrays {
			if !strings.Contains(body, a+"["+name+"]") {
				continue
			}
			if m[2] < 0 || strings.Contains(bound, "EIGHTS") && bound != "MOST_EIGHTS" {
				out = append(out, fmt.Sprintf("%s[%s]: want a loop that is unrolled and counts to a constant", a, name))
			}
		}
	}
	return out
}

// Sources have nothing that only other compilers take.
func TestRules(t *testing.T) {
	for _, file := range sources(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, b := range broken(string(text)) {
			t.Errorf("%s: %s", file, b)
		}
	}
	for _, text := range []string{
		"float x = double(1);",
		"float4 v = {1, 2, 3, 4};",
		"f(int2{1, 2});",
		"uint3 v{1, 2, 3};",
		"kernel void f(uint2 a [[thread_position_in_grid]], uint b [[thread_position_in_threadgroup]]) {}",
		"kernel void f(float a [[thread_position_in_grid]]) {}",
		"kernel void f(int a [[thread_index_in_simdgroup]]) {}",
		"simdgroup_float8x8 s[16]; for (int e = 0; e < 16; e++) { s[e] = x; }",
		"UNROLL for (int e = 0; e < EIGHTS; e++) { s[e] = x; } simdgroup_float8x8 s[16];",
		"void f(thread simdgroup_float8x8* sum, int n) { for (int e = 0; e < n; e++) { sum[e] = x; } }",
	} {
		if len(broken(text)) != 1 {
			t.Errorf("%s breaks %q, want one rule", text, broken(text))
		}
	}
	require.Empty(t, broken("// a double {\nstruct s { float4 v; };\nfloat4 f(float4 v) { return float4(v.x); }\nkernel void f(uint2 a [[thread_position_in_grid]], uint b [[thread_index_in_simdgroup]]) {}"))
}
