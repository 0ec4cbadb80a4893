package kernels_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/metal/kernels"
)

var update = flag.Bool("update", false, "write testdata/ops.golden")

// TestOperations lists for every operation, with its variants, the host's files and the joins that name it, and the
// Metal kernels that serve it. A host file or a join names every operation.
func TestOperations(t *testing.T) {
	hosts, joins, metal := map[string][]string{}, map[string][]string{}, map[string][]string{}
	add := func(to map[string][]string, key, at string) {
		if !slices.Contains(to[key], at) {
			to[key] = append(to[key], at)
		}
	}
	// The name of a constant is the name of its operation without underscores.
	plain := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }
	for _, folder := range []string{"lowering", "primitives"} {
		paths, err := filepath.Glob("../../" + folder + "/*.go")
		require.NoError(t, err)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			in := "" // the function
			for _, m := range regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?(\w+)|\bops\.(\w+)`).FindAllStringSubmatch(string(text), -1) {
				switch base := filepath.Base(path); {
				case m[1] != "":
					in = m[1]
				case strings.HasPrefix(base, "join"):
					add(joins, plain(m[2]), in)
				default:
					add(hosts, plain(m[2]), base)
				}
			}
		}
	}
	for _, k := range kernels.All() {
		for _, op := range k.Serves {
			name := op.Plain().String()
			add(metal, plain(name), strings.TrimSuffix(k.Name+" "+strings.TrimPrefix(op.String(), name), " "))
		}
	}
	var b strings.Builder
	for _, op := range ops.All() {
		key := plain(op.String())
		require.NotEmpty(t, append(hosts[key], joins[key]...), "nothing on the host has the operation %s", op)
		fmt.Fprint(&b, op)
		for i, of := range []map[string][]string{hosts, joins, metal} {
			if of[key] != nil {
				fmt.Fprint(&b, "; ", []string{"host ", "joins ", "metal "}[i], strings.Join(of[key], ", "))
			}
		}
		fmt.Fprintln(&b)
	}
	const path = "testdata/ops.golden"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "run with -update")
}
