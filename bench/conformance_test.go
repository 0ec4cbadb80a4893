package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
)

// A peer of four formulations: one right, one wrong and faster, one that fails,
// one right and slower.
const (
	cPeer = `#include "protocol.h"
static float good[3] = {1, 2, 3}, bad[3] = {1, 2, 3.5};
static void slow(void *s) { (void)s; usleep(1000); }
static void slower(void *s) { (void)s; usleep(20000); }
static void fast(void *s) { (void)s; }
int open_workload(const char *request, int threads, formulation *out) {
    char w[512];
    size_t bytes = 0;
    if (strcmp(text_of(request, "workload", w), "known")) return 0;
    float *x = read_npy(request, "in", "x", &bytes);
    if (!x) return -1;
    if (bytes != 12 || x[1] != 20 || threads != 3 || number_of(request, "n", 0) != 7) return fail("the request is \"not\" as sent");
    for (int i = 0; i < 4; i++) out[i].elements = 3, out[i].want = "c", out[i].result = i == 1 ? bad : good, out[i].step = i == 3 ? slower : i ? fast : slow;
    strcpy(out[0].name, "right"), strcpy(out[1].name, "wrong"), strcpy(out[2].name, "broken"), strcpy(out[2].failure, "cannot"), strcpy(out[3].name, "slower");
    return 4;
}
int main(void) { return serve("test", "1"); }
`
	pythonPeer = `import os, time
import numpy as np
import protocol
def known(data, params, threads):
    assert data["x"].tolist() == [10, 20, 30] and threads == 3 and params["n"] == 7
    def right(seconds):
        def step():
            time.sleep(seconds)
            return {"c": np.array([1, 2, 3])}
        return lambda: step
    def broken():
        raise ValueError("cannot")
    print("this does not disturb")
    return [("right", right(0.001)), ("wrong", lambda: lambda: {"c": np.array([1, 2, 3.5])}), ("broken", broken), ("slower", right(0.02))]
protocol.serve("test", "1", int(os.environ["BENCH_PEERS_THREADS"]), {"known": known}, lambda r: r)
`
)

// Both sides that peers are written with do the same with it.
func TestPeerSides(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, unpack(dir))
	c := func(t *testing.T) *exec.Cmd {
		if _, err := exec.LookPath("cc"); err != nil {
			t.Skip("no C compiler, cc (Debian: apt-get install gcc)")
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "test.c"), []byte(cPeer), 0o644))
		exe, err := compile(dir, "test", "test.c", library{})
		require.NoError(t, err)
		return exec.Command(exe)
	}
	python := func(t *testing.T) *exec.Cmd {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "test.py"), []byte(pythonPeer), 0o644))
		cmd, err := python(dir, "test.py", "json", 3)
		var missing *notInstalled
		if errors.As(err, &missing) {
			t.Skipf("no Python with numpy: %v", err)
		}
		require.NoError(t, err)
		return cmd
	}
	for name, command := range map[string]func(*testing.T) *exec.Cmd{"C": c, "Python": python} {
		t.Run(name, func(t *testing.T) {
			cmd := command(t)
			cmd.Env = environment(3)
			p, err := start(cmd, time.Minute, false)
			require.NoError(t, err)
			require.Equal(t, "test", p.Peer)

			x, err := array.Of([]float32{10, 20, 30}, 3)
			require.NoError(t, err)
			want, err := array.Of([]float32{1, 2, 3.0003}, 3)
			require.NoError(t, err)
			arrays := filepath.Join(t.TempDir(), "arrays")
			require.NoError(t, (&subject{in: map[string]array.Array{"x": x}, want: map[string]array.Array{"c": want}}).dump(arrays))
			ask := func(r any) answer {
				a, err := p.ask(r)
				require.NoError(t, err)
				return a
			}

			require.True(t, ask(opening{"open", "unknown", arrays, nil, 1e-3, 60}).Unsupported)
			a := ask(opening{"open", "known", arrays, map[string]any{"n": 7}, 1e-3, 60})
			require.Empty(t, a.Failure)
			require.Equal(t, "right", a.Best)
			require.Len(t, a.Formulations, 4)
			if f := a.Formulations[0]; f.Failure != "" || f.Error < 0.9e-4 || f.Error > 1.1e-4 || f.NS < 1e6 {
				t.Errorf("the right one is %+v, want error 1e-4 and at least a millisecond", f)
			}
			if f := a.Formulations[1]; !strings.HasPrefix(f.Failure, "disagrees: 0.16") {
				t.Errorf("the wrong one is %+v, want that it disagrees by 0.1666", f)
			}
			if f := a.Formulations[2]; !strings.Contains(f.Failure, "cannot") {
				t.Errorf("the broken one is %+v, want its failure", f)
			}
			if a = ask(timing{"time", 0.02}); len(a.NS) < 2 || a.NS[0] < 1e6 {
				t.Errorf("20 ms of a step of 1 ms are %v, want several of at least 1e6 ns", a.NS)
			}
			a = ask(opening{"open", "known", arrays, map[string]any{"n": 7}, 1e-9, 60})
			require.Contains(t, a.Failure, "no formulation runs and agrees")
			require.NotEmpty(t, ask(opening{"open", "known", filepath.Join(dir, "nowhere"), map[string]any{"n": 7}, 1e-3, 60}).Failure)
			if name == "Python" { // whose formulations may have to be compiled
				a = ask(opening{"open", "known", arrays, map[string]any{"n": 7}, 1e-3, 1e-3})
				require.Equal(t, "right", a.Best)
				require.Contains(t, a.Formulations[3].Failure, "not tried")
			}
			require.NoError(t, p.stop())
		})
	}
}
