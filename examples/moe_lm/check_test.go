package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/sharding"
)

func TestCheckPasses(t *testing.T) {
	for _, flags := range []string{"", "-mesh dp=1,ep=8", "-mesh dp=4", "-mesh ep=2,dp=2 -capacity 0.5", "-mesh ep=2 -order 1,0", "-mesh tp=2", "-mesh dp=2,ep=2,tp=2", "-mesh=",
		"-dtype bf16", "-dtype bf16 -mesh dp=1,ep=8", "-dtype bf16 -mesh ep=2,dp=2 -capacity 0.5", "-dtype bf16 -mesh dp=2,tp=2"} {
		args, out := tiny(t, strings.Fields("-check "+flags)...)
		stdout, err := execute(t, args...)
		if err != nil {
			t.Errorf("%s: %v\n%s", flags, err, stdout)
		}
		if !strings.Contains(stdout, "\n--check PASSED (loss ") || strings.Contains(stdout, "WRONG") {
			t.Errorf("%s:\n%s", flags, stdout)
		}
		for _, name := range []string{"loss ", "gradient norm ", "embed ", "l0_router ", "l1_gate ", "head "} {
			if !strings.Contains(stdout, "\n"+name) {
				t.Errorf("%s: nothing is said of %s:\n%s", flags, name, stdout)
			}
		}
		for _, line := range strings.Split(stdout, "\n") {
			if len(line) > 80 {
				t.Errorf("%s: %d columns: %s", flags, len(line), line)
			}
		}
		if _, err := os.Stat(out); !os.IsNotExist(err) {
			t.Errorf("%s: -check leaves %s behind", flags, out)
		}
	}
}

// Whatever is wrong on the mesh, and be it in one element, is found and named.
func TestCheckFails(t *testing.T) {
	args, _ := tiny(t, "-check", "-clip", "1e9")
	c, o, corpus := setup(t, args...)
	one, err := firstStep(context.Background(), c, sharding.Mesh{}, o, corpus)
	require.NoError(t, err)
	largest := func(xs []float64) float64 {
		m := 0.0
		for _, x := range xs {
			m = max(m, math.Abs(x))
		}
		return m
	}
	for _, fault := range []struct {
		name   string
		inject func(f *first)
		wrong  []string
	}{
		{"nothing", func(*first) {}, nil},
		{"loss by a bit", func(f *first) { f.Loss = math.Nextafter(f.Loss, 0) }, []string{"loss"}},
		{"loss is NaN", func(f *first) { f.Loss = math.NaN() }, []string{"loss"}},
		{"norm", func(f *first) { f.Norm *= 1 + 1e-5 }, []string{"gradient norm"}},
		{"one element of a gradient", func(f *first) {
			g := f.gradients["l1_gate"]
			g[7] += 3e-6 * largest(g)
		}, []string{"l1_gate"}},
		{"a gradient is NaN", func(f *first) { f.gradients["norm"][3] = math.NaN() }, []string{"norm"}},
		{"one element of a weight", func(f *first) {
			w := f.weights["head"]
			w[11] += 1e-6 * largest(w)
		}, []string{"head"}},
		{"a weight is infinite", func(f *first) { f.weights["embed"][0] = math.Inf(1) }, []string{"embed"}},
		{"a weight that did not move", func(f *first) {
			// A gradient of rounding size lets a weight move by the learning rate
			// either way; a weight that ignores its own gradient is still found.
			i := 0
			for j, g := range f.gradients["l0_wq"] {
				if math.Abs(g) > math.Abs(f.gradients["l0_wq"][i]) {
					i = j
				}
			}
			f.weights["l0_wq"][i] += o.lr
		}, []string{"l0_wq"}},
		{"two at once", func(f *first) { f.Loss++; f.weights["head"][0]++ }, []string{"loss", "head"}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			many, err := firstStep(context.Background(), c, o.mesh, o, corpus)
			require.NoError(t, err)
			fault.inject(many)
			var w bytes.Buffer
			err = compare(&w, c, o, one, many)
			var wrong []string
			for _, line := range strings.Split(w.String(), "\n") {
				if name, ok := strings.CutSuffix(line, "  WRONG"); ok {
					wrong = append(wrong, strings.TrimSpace(name[:strings.Index(name+"  ", "  ")]))
				}
			}
			require.Equal(t, fault.wrong, wrong, "%s", &w)
			if fault.wrong == nil {
				require.NoError(t, err)
				return
			}
			if !errors.Is(err, errCheck) || !strings.HasSuffix(err.Error(), ": "+strings.Join(fault.wrong, ", ")) {
				t.Errorf("got the error %v", err)
			}
			if !strings.HasSuffix(w.String(), "\n--check FAILED\n") || strings.Contains(w.String(), "PASSED") {
				t.Errorf("got\n%s", &w)
			}
		})
	}
}

// With tp the forward pass differs too, and more is allowed, but not anything.
func TestCheckTP(t *testing.T) {
	args, _ := tiny(t, "-check", "-mesh", "tp=2")
	c, o, corpus := setup(t, args...)
	one, err := firstStep(context.Background(), c, sharding.Mesh{}, o, corpus)
	require.NoError(t, err)
	for _, fault := range []struct {
		by   float64
		want bool
	}{{5e-6, true}, {5e-5, false}} {
		many, err := firstStep(context.Background(), c, sharding.Mesh{}, o, corpus)
		require.NoError(t, err)
		many.Loss *= 1 + fault.by
		many.Norm *= 1 + fault.by
		var w bytes.Buffer
		if err := compare(&w, c, o, one, many); errors.Is(err, errCheck) == fault.want {
			t.Errorf("loss and norm wrong by %g: got %v\n%s", fault.by, err, &w)
		}
	}
}

// In bf16 gradients may differ by more than their rounding, but not by much more,
// and what AdamW makes of them is as exact as in f32.
func TestCheckBF16(t *testing.T) {
	for _, fault := range []struct {
		name   string
		inject func(f *first)
		wrong  string
	}{
		{"loss by a bit", func(f *first) { f.Loss = math.Nextafter(f.Loss, 0) }, "loss"},
		{"norm", func(f *first) { f.Norm *= 1.01 }, "gradient norm"},
		{"gradient", func(f *first) {
			g := f.gradients["l1_gate"]
			i := 0
			for j := range g {
				if math.Abs(g[j]) > math.Abs(g[i]) {
					i = j
				}
			}
			g[i] *= 1.05
		}, "l1_gate"},
		{"weight", func(f *first) { f.weights["head"][3] += 1e-5 }, "head"},
	} {
		args, _ := tiny(t, "-check", "-dtype", "bf16", "-clip", "1e9")
		c, o, corpus := setup(t, args...)
		one, err := firstStep(context.Background(), c, sharding.Mesh{}, o, corpus)
		require.NoError(t, err)
		many, err := firstStep(context.Background(), c, o.mesh, o, corpus)
		require.NoError(t, err)
		fault.inject(many)
		var w bytes.Buffer
		if err := compare(&w, c, o, one, many); !errors.Is(err, errCheck) || !strings.HasSuffix(err.Error(), ": "+fault.wrong) {
			t.Errorf("%s: got %v, want that %s is wrong\n%s", fault.name, err, fault.wrong, &w)
		}
	}
}

// Another seed is another model: nothing agrees.
func TestCheckSeeds(t *testing.T) {
	args, _ := tiny(t, "-check")
	c, o, corpus := setup(t, args...)
	one, err := firstStep(context.Background(), c, sharding.Mesh{}, o, corpus)
	require.NoError(t, err)
	other := o
	other.seed++
	many, err := firstStep(context.Background(), c, o.mesh, other, corpus)
	require.NoError(t, err)
	var w bytes.Buffer
	require.ErrorIs(t, compare(&w, c, o, one, many), errCheck)
	if got, want := strings.Count(w.String(), "WRONG"), 2+len(c.params()); got != want {
		t.Errorf("%d lines are wrong, want all %d:\n%s", got, want, &w)
	}
}
