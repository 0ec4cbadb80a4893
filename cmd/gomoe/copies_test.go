package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/sharding"
)

func TestCopying(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	loads := file("loads.json", `{"load": [{"layer": "a", "shares": [0.1, 0.7, 0.1, 0.1]}]}`)
	empty, broken := file("empty.json", "{}"), file("broken.json", "{")
	for _, c := range []struct {
		flag, mesh string
		want       ep.Copies
		err        string
	}{
		{"", "ep=2", nil, ""},
		{"1", "ep=2", ep.Copies{0, 1, 2, 0, 1, 3}, ""},
		{loads, "ep=2", ep.Copies{1, 1, 3, 0, 1, 2}, ""},
		{"0," + loads, "ep=2", ep.Copies{1, 3, 0, 2}, ""},
		{loads, "ep=0-3/4-4", ep.Copies{0, 1, 2, 3, 1}, ""},
		{"2", "ep=0-3/4-4", nil, `2 further experts on each rank, but the mesh "ep=0-3/4" says how many each has`},
		{"x", "ep=2", nil, "-copies: open x: no such file"},
		{"-1", "ep=2", nil, `-copies "-1": want how many more experts each rank holds`},
		{"1,", "ep=2", nil, `-copies "1,": want how many`},
		{empty, "ep=2", nil, "no loads of experts; want what gomoe eval -json prints"},
		{broken, "ep=2", nil, "want what gomoe eval -json prints: unexpected end"},
	} {
		m, err := sharding.ParseMesh(c.mesh)
		require.NoError(t, err)
		x := copying{flag: c.flag}
		of, err := x.parse(m)
		var got ep.Copies
		if err == nil && of != nil {
			got, err = of("a", 4)
		}
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.flag)
			continue
		}
		require.NoError(t, err, c.flag)
		require.Equal(t, c.want, got, c.flag)
	}
	m, err := sharding.ParseMesh("ep=2")
	require.NoError(t, err)
	x := copying{flag: loads}
	of, err := x.parse(m)
	require.NoError(t, err)
	_, err = of("b", 4)
	require.ErrorContains(t, err, "no loads for layer b, want those of its 4 experts; there are loads for a")
	_, err = of("a", 5)
	require.ErrorContains(t, err, "loads of 4 experts for layer a, want 5")
	// The file's contents count and not where it lies.
	y := copying{flag: file("elsewhere.json", `{"load": [{"layer": "a", "shares": [0.1, 0.7, 0.1, 0.1]}]}`)}
	_, err = y.parse(m)
	require.NoError(t, err)
	require.Equal(t, x.fact(), y.fact())
	z := copying{flag: "2"}
	require.NotEqual(t, x.fact(), z.fact())
}
