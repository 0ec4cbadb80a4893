package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// go run builds once, with its flags, and ranks get the arguments.
func TestGoRun(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir()) // where no other launch leaves anything
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module x\n\ngo 1.26\n"), 0o644))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "hello"), 0o755))
	src := "//go:build a\n\npackage main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"path/filepath\"\n)\n\nfunc main() { fmt.Println(filepath.Base(os.Args[0]), os.Args[1:], os.Getenv(\"RANK\")) }\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "hello", "main.go"), []byte(src), 0o644))
	r := launch(t, Options{Command: []string{"go", "run", "-tags", "a", "-modcacherw", "./hello", "-n", "4"}, Ranks: 2, Dir: dir}, "")
	require.NoError(t, r.err)
	want(t, "standard output", r.stdout, "[0] hello [-n 4] 0\n", "[1] hello [-n 4] 1\n")
	if strings.Count(r.stderr, "built once") != 1 {
		t.Errorf("standard error:\n%s", r.stderr)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "gomoe-launch-*", "hello"))
	require.NoError(t, err)
	if len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
