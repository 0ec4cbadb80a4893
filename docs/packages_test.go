package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unexemplified lists public packages without an Example, with the reason.
func unexemplified() map[string]string {
	return map[string]string{
		"jaccl":              "declares interfaces, which the Example of engine calls",
		"jaccl/link/shm":     "called as tcp is, whose Example connects ranks",
		"jaccl/link/verbs":   "takes RDMA devices",
		"jaccl/link/mpi":     "takes mpirun",
		"jaccl/mlx/mesh":     "takes RDMA devices",
		"jaccl/rdma":         "takes RDMA devices",
		"jaccl/mlx/headless": "what ring and mesh have in common",
		"jaccl/mlx/ring":     "called as tcp is, whose Example connects ranks",
		"jaccl/job/meet":     "the Example of tcp meets",
		"jaccl/job/watch":    "the Example of tcp watches",
		"metal/mtl":          "takes a Mac",
		"checkpoint/tensor":  "the Examples of safetensors and gguf use it",
		"finetune":           "takes a model with its tokenizer, and texts; gomoe finetune calls it",
		"metal/measure":      "takes a Mac; gomoe bench kernels shows it",
	}
}

// TestPackages asks every public package for a comment that says more than a line, and for
// an Example.
func TestPackages(t *testing.T) {
	skip := regexp.MustCompile(`(^|/)(internal|cmd|examples|bench|docs|testdata|bin|out|\w+test|\..*)(/|$)`)
	example := regexp.MustCompile(`(?m)^func Example`)
	found := 0
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		name, err := filepath.Rel("..", path)
		require.NoError(t, err)
		name = filepath.ToSlash(name)
		if !e.IsDir() {
			return nil
		}
		if skip.MatchString(name) && name != "." {
			return filepath.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(path, "*.go"))
		require.NoError(t, err)
		if len(files) == 0 {
			return nil
		}
		found++
		comment, has := "", false
		for _, f := range files {
			src, err := os.ReadFile(f)
			require.NoError(t, err)
			if strings.HasSuffix(f, "_test.go") {
				has = has || example.Match(src)
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), f, src, parser.PackageClauseOnly|parser.ParseComments)
			require.NoError(t, err)
			comment += parsed.Doc.Text()
		}
		if strings.Count(comment, "\n") < 3 {
			t.Errorf("%s: the package's comment does not say what it is for, what it is not for, and where to begin:\n%s", name, comment)
		}
		if reason := unexemplified()[name]; has == (reason != "") {
			t.Errorf("%s: has an Example: %v; the reason for none: %q", name, has, reason)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, found, 20, "packages")
}
