package lm

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/sharding"
)

// Whatever is wrong on the mesh, and be it in one element, is found and named.
func TestCheckFails(t *testing.T) {
	args, _ := tiny(t, "-check", "-clip", "1e9")
	c, o, corpus := setup(t, args...)
	one, err := c.firstStep(context.Background(), o, sharding.Mesh{}, corpus)
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
			g := f.gradients["b.experts.*.gate_proj.weight"]
			g[7] += 3e-6 * largest(g)
		}, []string{"b.experts.*.gate_proj.weight"}},
		{"a gradient is NaN", func(f *first) { f.gradients["b.norm1.weight"][3] = math.NaN() }, []string{"b.norm1.weight"}},
		{"one element of a weight", func(f *first) {
			w := f.weights["head.weight"]
			w[11] += 1e-6 * largest(w)
		}, []string{"head.weight"}},
		{"a weight is infinite", func(f *first) { f.weights["embed.weight"][0] = math.Inf(1) }, []string{"embed.weight"}},
		{"a weight that did not move", func(f *first) {
			// A gradient of rounding size lets a weight move by the learning rate
			// either way; a weight that ignores its own gradient is still found.
			i := 0
			for j, g := range f.gradients["a.q_proj.weight"] {
				if math.Abs(g) > math.Abs(f.gradients["a.q_proj.weight"][i]) {
					i = j
				}
			}
			f.weights["a.q_proj.weight"][i] += o.Rate
		}, []string{"a.q_proj.weight"}},
		{"two at once", func(f *first) { f.Loss++; f.weights["head.weight"][0]++ }, []string{"loss", "head.weight"}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			many, err := c.firstStep(context.Background(), o, o.Mesh, corpus)
			require.NoError(t, err)
			fault.inject(many)
			var w bytes.Buffer
			err = compare(&w, o, one, many)
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
	one, err := c.firstStep(context.Background(), o, sharding.Mesh{}, corpus)
	require.NoError(t, err)
	for _, fault := range []struct {
		by   float64
		want bool
	}{{5e-6, true}, {5e-5, false}} {
		many, err := c.firstStep(context.Background(), o, sharding.Mesh{}, corpus)
		require.NoError(t, err)
		many.Loss *= 1 + fault.by
		many.Norm *= 1 + fault.by
		var w bytes.Buffer
		if err := compare(&w, o, one, many); errors.Is(err, errCheck) == fault.want {
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
			g := f.gradients["b.experts.*.gate_proj.weight"]
			i := 0
			for j := range g {
				if math.Abs(g[j]) > math.Abs(g[i]) {
					i = j
				}
			}
			g[i] *= 1.05
		}, "b.experts.*.gate_proj.weight"},
		{"weight", func(f *first) { f.weights["head.weight"][3] += 1e-5 }, "head.weight"},
	} {
		args, _ := tiny(t, "-check", "-dtype", "bf16", "-clip", "1e9")
		c, o, corpus := setup(t, args...)
		one, err := c.firstStep(context.Background(), o, sharding.Mesh{}, corpus)
		require.NoError(t, err)
		many, err := c.firstStep(context.Background(), o, o.Mesh, corpus)
		require.NoError(t, err)
		fault.inject(many)
		var w bytes.Buffer
		if err := compare(&w, o, one, many); !errors.Is(err, errCheck) || !strings.HasSuffix(err.Error(), ": "+fault.wrong) {
			t.Errorf("%s: got %v, want that %s is wrong\n%s", fault.name, err, fault.wrong, &w)
		}
	}
}

// Another seed is another model: nothing agrees.
func TestCheckSeeds(t *testing.T) {
	args, _ := tiny(t, "-check")
	c, o, corpus := setup(t, args...)
	one, err := c.firstStep(context.Background(), o, sharding.Mesh{}, corpus)
	require.NoError(t, err)
	other := *o
	other.Seed++
	many, err := c.firstStep(context.Background(), &other, o.Mesh, corpus)
	require.NoError(t, err)
	var w bytes.Buffer
	require.ErrorIs(t, compare(&w, o, one, many), errCheck)
	if got, want := strings.Count(w.String(), "WRONG"), 2+len(one.params); got != want {
		t.Errorf("%d lines are wrong, want all %d:\n%s", got, want, &w)
	}
}
