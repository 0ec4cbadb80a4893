package msl

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A table would be a package variable; flags can be nothing else.
var update = flag.Bool("update", false, "write golden files")

// The golden file has what is reflected, the rewritten source and the tables.
func TestGolden(t *testing.T) {
	sources, err := filepath.Glob("testdata/*.metal")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	for _, path := range sources {
		src, err := os.ReadFile(path)
		require.NoError(t, err)
		u, err := Rewrite(string(src))
		require.NoError(t, err)
		var b strings.Builder
		for _, k := range u.Kernels {
			fmt.Fprintf(&b, "kernel %s", k.Name)
			if k.MaxThreads > 0 {
				fmt.Fprintf(&b, " of at most %d threads", k.MaxThreads)
			}
			b.WriteString("\n")
			for _, p := range k.Params {
				fmt.Fprintf(&b, "  %s: %s %d, %s\n", p.Name, p.Source.shim(), p.Index, p.Type)
			}
		}
		for _, c := range u.Constants {
			fmt.Fprintf(&b, "constant %d %s %s\n", c.Index, c.Type, c.Name)
		}
		got := b.String() + "---- source\n" + u.Source + "---- tables\n" + u.Tables
		require.Equal(t, strings.Count(string(src), "\n"), strings.Count(u.Source, "\n"), "lines")
		golden := strings.TrimSuffix(path, ".metal") + ".golden"
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), got, "go test -update writes golden files")
	}
}
