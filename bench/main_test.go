package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	s, err := parse([]string{"-rounds", "3", "-only", "moe/f32", "-threads", "1"})
	require.NoError(t, err)
	require.Equal(t, 3, s.rounds)
	require.Equal(t, []int{1}, s.threads)
	require.True(t, s.only.MatchString("moe/f32/forward"))
	for _, c := range []struct{ args, want string }{
		{"-rounds 0", "-rounds 0: want at least 1"},
		{"-seconds -1", "-seconds -1: want more than 0"},
		{"-seconds NaN", "-seconds NaN: want more than 0"},
		{"-only (", "-only: error parsing regexp"},
		{"-peers )", "-peers: error parsing regexp"},
		{"-threads 1,x", "-threads 1,x: want numbers from 1"},
		{"-threads 100000", "-threads 100000: want numbers from 1"},
		{"what", `argument "what": all settings are flags`},
	} {
		_, err := parse(strings.Fields(c.args))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.args, err, c.want)
		}
	}
}

// Every workload has a name of its own, peers that exist, and a program that
// compiles; only the decoding ones may need more than this build has.
func TestWorkloads(t *testing.T) {
	names := map[string]bool{}
	s, err := parse(nil)
	require.NoError(t, err)
	crew := newCrew("", time.Second, false)
	for _, w := range allWorkloads(s) {
		if names[w.name] {
			t.Errorf("two workloads are called %s", w.name)
		}
		names[w.name] = true
		if w.target <= 0 || w.tolerance <= 0 || len(w.threads) == 0 {
			t.Errorf("%s: target %g, tolerance %g, threads %v", w.name, w.target, w.tolerance, w.threads)
		}
		for _, p := range w.peers {
			if crew.peers[p].name == "" {
				t.Errorf("%s: peer %q does not exist", w.name, p)
			}
		}
	}
	var out bytes.Buffer
	require.NoError(t, run([]string{"-list", "-only", "^scalar"}, &out))
	require.Contains(t, out.String(), "20 equations")
	require.ErrorContains(t, run([]string{"-only", "^nothing$"}, &out), "no workload has such a name")
	require.ErrorContains(t, run([]string{"-peers", "^nobody$"}, &out), "and peer")
	out.Reset()
	require.NoError(t, run([]string{"-list", "-peers", "^JAX$", "-only", "matmul|scalar"}, &out))
	require.Regexp(t, `^scalar/20 .*; against JAX\n$`, out.String())
}

// A peer that is not installed does not end the run: its rows say what to do.
func TestNotInstalled(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a workload, and -short wants none")
	}
	t.Setenv("BENCH_PYTHON", filepath.Join(t.TempDir(), "no-python"))
	dir := t.TempDir()
	var out bytes.Buffer
	require.NoError(t, run([]string{"-only", "^scalar", "-threads", "1", "-rounds", "1", "-seconds", "0.001", "-out", dir}, &out))
	table, err := os.ReadFile(filepath.Join(dir, "table.md"))
	require.NoError(t, err)
	require.Contains(t, string(table), "not installed: pip install jax numpy")
	require.Contains(t, string(table), "not installed: pip install torch numpy")
	require.FileExists(t, filepath.Join(dir, "table.json"))
	require.NoFileExists(t, filepath.Join(dir, "ratios.png"))
}

// A library that is missing is told apart from a program that does not compile.
func TestMissingLibrary(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler, cc (Debian: apt-get install gcc)")
	}
	dir := t.TempDir()
	write := func(name, src string) { require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(src), 0o644)) }
	write("header.c", "#include <no_such_header_at_all.h>\nint main(void) { return 0; }")
	write("wrong.c", "int main(void) { return wrong; }")
	write("right.c", "int main(void) { return 0; }")
	var missing *missingLibrary
	if _, err := compile(dir, "a", "header.c", library{}); !errors.As(err, &missing) {
		t.Errorf("without a header the error is %v, want a missing library", err)
	}
	if _, err := compile(dir, "a", "right.c", library{link: []string{"-lno_such_library"}}); !errors.As(err, &missing) {
		t.Errorf("without a library the error is %v, want a missing library", err)
	}
	if _, err := compile(dir, "a", "right.c", library{env: "NO_SUCH_DIR", required: true}); !errors.As(err, &missing) {
		t.Errorf("without a folder the error is %v, want a missing library", err)
	}
	if _, err := compile(dir, "a", "wrong.c", library{}); err == nil || errors.As(err, &missing) {
		t.Errorf("of a wrong program the error is %v, want the compiler's", err)
	}
	exe, err := compile(dir, "Some", "right.c", library{})
	require.NoError(t, err)
	require.NoError(t, exec.Command(exe).Run())
}
