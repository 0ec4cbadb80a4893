package kernels

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file takes in what it includes, once, and lines keep their numbers.
func TestText(t *testing.T) {
	text, err := Text("made.metal")
	require.NoError(t, err)
	for _, once := range []string{"#include <metal_stdlib>", "static inline int zone_length"} {
		if n := strings.Count(text, once); n != 1 {
			t.Errorf("%q is there %d times, want once", once, n)
		}
	}
	if strings.Contains(text, `#include "`) {
		t.Error("an include of a file of the package is left")
	}
	// Every line but those of directives stands where its file has it.
	var file string
	var at int
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if rest, ok := strings.CutPrefix(line, "#line "); ok {
			number, name, _ := strings.Cut(rest, " ")
			file, at = strings.Trim(name, `"`), 0
			for _, c := range number {
				at = 10*at + int(c-'0')
			}
			continue
		}
		own, err := fs.ReadFile(files, file)
		require.NoError(t, err)
		want := strings.Split(string(own), "\n")[at-1]
		if line != want && !strings.HasPrefix(want, `#include "`) {
			t.Errorf("%s:%d is %q, want %q", file, at, line, want)
		}
		at++
	}
}

// Files that are not there are named with those that want them.
func TestTextMissing(t *testing.T) {
	_, err := Text("none.metal")
	require.ErrorContains(t, err, "none.metal")
}

// A library of made texts has each of them once.
func TestMadeText(t *testing.T) {
	text, err := MadeText([]string{"kernel void a() {}", "kernel void b() {}", "kernel void a() {}"})
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(text, "kernel void a() {}"))
	require.Equal(t, 1, strings.Count(text, "kernel void b() {}"))
	require.Contains(t, text, "zone_length")
}
