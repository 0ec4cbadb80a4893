package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/sharding"
)

// With -exact a run has the same bits on every mesh, in processes over every transport, in f32
// and with products of bf16, and where it goes on on another mesh; without, it has not.
func TestExact(t *testing.T) {
	for i, dtype := range []string{"f32", "bf16"} {
		base := []string{"-batch", "8", "-steps", "4", "-dtype", dtype}
		args, out := tiny(t, append(base, "-exact", "-mesh", "")...)
		_, err := execute(t, args...)
		require.NoError(t, err)
		want, _ := trained(t, out)
		for j, mesh := range []string{"dp=2", "ep=2", "dp=2,ep=2", "dp=1,ep=4", "dp=8", "ep=8", "dp=3", "dp=2,ep=3", "ep=7"} {
			if !*every && (i+j)%2 != 0 {
				continue
			}
			args, out := tiny(t, append(base, "-exact", "-mesh", mesh)...)
			_, err := execute(t, args...)
			require.NoError(t, err, mesh)
			if got, _ := trained(t, out); !bytes.Equal(got, want) {
				t.Errorf("%s on the mesh %s: the model has other bits than on one rank", dtype, mesh)
			}
		}
		for _, zero := range []string{"moments", "weights"} { // which splits the experts' moments over dp.ep on one mesh, and over dp on another
			for j, mesh := range []string{"", "dp=2", "ep=2", "dp=2,ep=2", "dp=3"} {
				if !*every && (i+j)%2 != 0 {
					continue
				}
				args, out := tiny(t, append(base, "-exact", "-zero", zero, "-mesh", mesh)...)
				_, err := execute(t, args...)
				require.NoError(t, err, "%s on %s", zero, mesh)
				if got, _ := trained(t, out); !bytes.Equal(got, want) {
					t.Errorf("%s with -zero %s on the mesh %q: the model has other bits than on one rank", dtype, zero, mesh)
				}
			}
		}
		for transport, mesh := range map[string]string{"tcp": "dp=2,ep=2", "shm": "dp=1,ep=3", "ring": "dp=2"} {
			args, out := tiny(t, append(base, "-exact", "-mesh", mesh, "-transport", transport)...)
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			status, _, stderr := launched(t, m.Ranks(), args, nil)
			require.Zero(t, status, stderr)
			if got, _ := trained(t, out); !bytes.Equal(got, want) {
				t.Errorf("%s over %s: the model has other bits than on one rank", dtype, transport)
			}
		}
	}
}

func TestExactElsewhere(t *testing.T) {
	args, whole := tiny(t, "-batch", "8", "-steps", "6", "-save-every", "2", "-exact", "-mesh", "dp=1,ep=4")
	_, err := execute(t, args...)
	require.NoError(t, err)
	want, _ := trained(t, whole)
	paused := filepath.Join(t.TempDir(), "paused")
	args = append(args, "-out", paused)
	stop, cancel := context.WithCancel(context.Background())
	defer cancel()
	stdout := &stopper{at: "step 3/6", stop: cancel}
	require.NoError(t, program().Run(context.Background(), stop, append(args, "-mesh", "dp=2"), stdout))
	_, err = execute(t, append(args, "-resume", "-mesh", "dp=2,ep=2")...)
	require.NoError(t, err)
	if got, _ := trained(t, paused); !bytes.Equal(got, want) {
		t.Error("a run that goes on on another mesh ends with other bits")
	}
}

// -check -exact allows no difference at all, and what cannot be exact is refused.
func TestExactCheck(t *testing.T) {
	args, _ := tiny(t, "-batch", "8", "-check", "-exact", "-mesh", "dp=2,ep=2")
	got, err := execute(t, args...)
	require.NoError(t, err, got)
	if strings.Count(got, "0.00e+00  0.00e+00  0.00e+00  ok") < 10 {
		t.Errorf("differences:\n%s", got)
	}
	for flags, want := range map[string]string{
		"-mesh tp=2":           "leave tp out, or exact",
		"-batch 12 -mesh dp=2": "-batch 12 does not divide over the 8 blocks of exact sums in -mesh dp=2: want a multiple of 8",
		"-sums bf16":           "-exact and -sums bf16: want one of them",
	} {
		args, _ := tiny(t, append([]string{"-batch", "8", "-exact"}, strings.Fields(flags)...)...)
		_, err := execute(t, args...)
		require.ErrorContains(t, err, want, flags)
	}
}
