package policy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// readsItself lists what reads files other than through package infile, with the reason: by file, or by a folder for all below it.
// A path from outside may name a device or a pipe, or a file without an end.
func readsItself() map[string]string {
	const system = "files of the system, which have an end"
	return map[string]string{
		"internal/infile/":              "it is what opens files from outside",
		"bench/":                        "measurements, which people start with paths of their own",
		"internal/testing/":             "tests' own files",
		"internal/policy/size/":         "the module's own files",
		"metal/internal/emu/":           "embedded files, and those that it has written",
		"metal/internal/standin/":       "embedded files, and those that it has written",
		"metal/kernels/source.go":       "embedded files",
		"internal/kernel/cache.go":      system,
		"internal/launch/numa.go":       system,
		"internal/memory/":              system,
		"jaccl/job/meet/":               system,
		"jaccl/link/shm/":               system,
		"internal/whole/owned_other.go": "the null device, which is not read",
		"internal/whole/owned_unix.go":  "a folder, which is locked and not read",
	}
}

// readers are the functions that open or read whatever a path names, or read without a bound.
func readers() []string {
	return []string{"os.Open", "os.ReadFile", "fs.ReadFile", "io.ReadAll", "ioutil.ReadFile", "ioutil.ReadAll"}
}

// unbounded returns where a file reads what it should read through package infile.
func unbounded(f file) (out []string) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, f.path, f.src, parser.SkipObjectResolution)
	if err != nil || f.test() {
		return nil // reported by problems
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if from, ok := sel.X.(*ast.Ident); ok && slices.Contains(readers(), from.Name+"."+sel.Sel.Name) {
			p := fset.Position(n.Pos())
			out = append(out, fmt.Sprintf("%s:%d: %s.%s; read it with package infile, or list it in readsItself with the reason", p.Filename, p.Line, from.Name, sel.Sel.Name))
		}
		return true
	})
	return out
}

// listed returns the entry of the list that a file falls under, "" for none.
func listed(path string, list map[string]string) string {
	for entry := range list {
		if entry == path || strings.HasSuffix(entry, "/") && strings.HasPrefix(path, entry) {
			return entry
		}
	}
	return ""
}

// Files from outside are read by one package, which bounds what it reads and refuses what is no file.
func TestFilesAreBounded(t *testing.T) {
	files, err := read(filepath.Join("..", ".."))
	require.NoError(t, err)
	used := map[string]bool{}
	for _, f := range files {
		found := unbounded(f)
		if entry := listed(f.path, readsItself()); entry != "" {
			used[entry] = used[entry] || len(found) > 0
			continue
		}
		for _, p := range found {
			t.Error(p)
		}
	}
	for entry := range readsItself() {
		if !used[entry] {
			t.Errorf("policy: %s is listed as reading files itself and does not", entry)
		}
	}
}

// The rule catches what it is for.
func TestUnbounded(t *testing.T) {
	for src, want := range map[string]int{
		`import "os"; func f() { os.Open("a"); os.ReadFile("b") }`: 2,
		`import "io"; func f(r io.Reader) { io.ReadAll(r) }`:       1,
		`import "os"; var open = os.Open`:                          1,
		`import "os"; func f() { os.OpenRoot("a"); os.Stat("b") }`: 0,
		`func f(os interface{ Close() }) { os.Close() }`:           0,
	} {
		if got := unbounded(file{"a/a.go", "a", []byte("package a\n" + src)}); len(got) != want {
			t.Errorf("%s: %q, want %d", src, got, want)
		}
	}
	require.Empty(t, unbounded(file{"a/a_test.go", "a", []byte("package a\nvar open = os.Open")}))
}
