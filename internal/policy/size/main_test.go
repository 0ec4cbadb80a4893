package main

import (
	"bytes"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// The table has each package's counts, their changes, and packages that are gone.
func TestSize(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	now, err := count(fstest.MapFS{
		"a/a.go":            file("package a\n\nconst A, b = 1, 2\n\ntype Options struct{ X, Y, z int }\n\nfunc (o *Options) M() {}\nfunc (o *c[T]) M()      {}\n"),
		"a/b.go":            file("package a\n"),
		"a/a_test.go":       file("package a\n\n"),
		"a/a_amd64.s":       file("\n\n\n"),
		"a/testdata/x.go":   file("package x\n"),
		"cmd/main.go":       file("package main\n\nvar X = fs.IntVar(&x, \"x\", 1, \"\")\n"),
		".git/x.go":         file("package x\n"),
		"docs/reference.md": file("\n"),
	})
	require.NoError(t, err)
	require.Equal(t, map[string]counts{"a": {9, 2, 2, 3, 3, 2}, "cmd": {3, 1, 0, 0, 0, 1}}, now)
	before, err := read([]byte("package,go,files,tests,assembly,exported,options\na,7,2,2,3,4,2\nb,1,1,0,0,0,0\n"))
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, print(&b, now, before))
	require.Equal(t, `  go      files      tests    assembly    exported      options    package
   9  +2      2          2           3           3  -1        2      a
   3  +3      1  +1      0           0           0            1  +1  cmd
   0  -1      0  -1      0           0           0            0      b
  12  +4      3          2           3           3  -1        3  +1  all
`, b.String())
}

// The record is read.
func TestRecord(t *testing.T) {
	before, err := read(record)
	require.NoError(t, err)
	require.NotEmpty(t, before["primitives"])
}
