package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
)

// TestFixtures runs jobs whose results NumPy computed, on several meshes, and
// compares everything that is written. testdata/make.py made them.
func TestFixtures(t *testing.T) {
	for _, c := range []struct{ dir, loss, sum string }{
		{"l1", "72.4628", "-26.8022"},
		{"l2", "30.3005", "-8.5089"},
		{"l3", "14.1936", "-7.3443"},
		{"odd", "", ""},
	} {
		for _, mesh := range []string{"dp=2,ep=2", "ep=4", "dp=4", "ep=2,dp=2", "dp=1,ep=1", "ep=2", "ep=3", "ep=0/1-3"} {
			t.Run(c.dir+"/"+mesh, func(t *testing.T) {
				in, out := filepath.Join("testdata", c.dir), t.TempDir()
				var stdout bytes.Buffer
				require.NoError(t, run(context.Background(), []string{"-in", in, "-out", out, "-mesh", mesh}, &stdout, io.Discard))
				if c.loss != "" && strings.Count(stdout.String(), "loss="+c.loss+" ") != 3 {
					t.Errorf("want loss=%s three times:\n%s", c.loss, &stdout)
				}
				if want := "[ep_moe] --check PASSED (ref_out.sum()=" + c.sum; !strings.Contains(stdout.String(), want) {
					t.Errorf("want %s:\n%s", want, &stdout)
				}
				wants, err := filepath.Glob(filepath.Join(in, "want_*.npy"))
				require.NoError(t, err)
				require.GreaterOrEqual(t, len(wants), 4)
				for _, path := range wants {
					name := strings.TrimPrefix(filepath.Base(path), "want_")
					want, err := array.ReadFile(path)
					require.NoError(t, err)
					got, err := array.ReadFile(filepath.Join(out, name))
					require.NoError(t, err)
					scale := 0.0
					for _, x := range want.Float64s() {
						scale = max(scale, math.Abs(x))
					}
					if d, at := array.MaxDiff(got, want); !(d <= 3e-6*scale) {
						t.Errorf("%s differs from NumPy by %g at %d, want at most %g", name, d, at, 3e-6*scale)
					}
				}
			})
		}
	}
}

// TestJobs runs generated jobs of odd sizes; each checks itself.
func TestJobs(t *testing.T) {
	for _, args := range []string{
		"",
		"-dtype bf16 -num-layers 3",
		"-mesh dp=1,ep=8 -num-tokens 0",
		"-mesh ep=3 -num-experts 6 -top-k 3 -num-tokens 5",
		"-mesh ep=2 -hidden 7 -hidden-out 3 -num-experts 4",
		"-mesh tp=2,ep=2",
		"-top-k 9 -num-experts 4 -num-tokens 2",
		"-whole -num-layers 2",
		"-whole -sum -mesh ep=4 -num-tokens 1 -dtype bf16",
		"-whole -sum -mesh dp=2,ep=2 -num-layers 3",
	} {
		t.Run(args, func(t *testing.T) {
			var stdout bytes.Buffer
			require.NoError(t, run(context.Background(), strings.Fields(args), &stdout, io.Discard))
			if !strings.Contains(stdout.String(), "--check PASSED") {
				t.Errorf("no check:\n%s", &stdout)
			}
		})
	}
}

func TestCheckOff(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(context.Background(), []string{"-check=false"}, &stdout, io.Discard))
	if strings.Contains(stdout.String(), "check") {
		t.Errorf("-check=false checks:\n%s", &stdout)
	}
}

// TestWrong names what is wrong with a command line or a folder.
func TestWrong(t *testing.T) {
	odd := t.TempDir()
	require.NoError(t, os.CopyFS(odd, os.DirFS("testdata/odd")))
	idx, err := array.ReadFile(filepath.Join(odd, "topk_idx_0.npy"))
	require.NoError(t, err)
	array.Data[int32](idx)[5] = 4
	require.NoError(t, array.WriteFile(filepath.Join(odd, "topk_idx_0.npy"), idx))
	for _, c := range []struct{ args, want string }{
		{"-mesh dp=2,ep=", "no axis"},
		{"-dtype f64", "want f32 or bf16"},
		{"-num-layers 2 -hidden 4", "need them equal"},
		{"-iters 0", "at least 1"},
		{"-in testdata/none", "tokens.npy"},
		{fmt.Sprintf("-in %s", odd), "token 1, choice 2: expert 4, want 0 to 3"},
		{"more", "all settings are flags"},
	} {
		err := run(context.Background(), strings.Fields(c.args), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ep_moe %s: %v, want an error with %q", c.args, err, c.want)
		}
	}
}
