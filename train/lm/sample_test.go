package lm

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/train"
)

// What the writer makes of the bytes so far is what the model makes of them in a batch, whatever follows them, and never
// drops.
func TestWriter(t *testing.T) {
	ctx := context.Background()
	window := make([]int32, 16)
	for i := range window {
		window[i] = int32(sentence[i])
	}
	var want []float32
	for _, flags := range []string{"-tight=false", "-tight"} {
		args, _ := tiny(t, flags, "-mesh=")
		c, o, _ := setup(t, args...)
		p, err := c.step(o).Trace(o.Mesh)
		require.NoError(t, err)
		run, err := train.Open(t.Context(), p, o.Config(o.Mesh))
		require.NoError(t, err)
		defer run.Close()
		require.NoError(t, run.Init(t.Context(), o.Seed))
		weights, err := run.Weights(ctx)
		require.NoError(t, err)
		w, err := c.newWriter(t.Context(), o, weights)
		require.NoError(t, err)
		defer w.Close()
		for _, after := range []int32{0, 255} {
			for i := 6; i < len(window); i++ {
				window[i] = after
			}
			got, err := w.logits(ctx, window, 5)
			require.NoError(t, err)
			if want == nil {
				want = append(want, got...)
			}
			require.Equal(t, want, append([]float32{}, got...), "%s, followed by %d", flags, after)
		}
		other, err := w.logits(ctx, window, 6)
		require.NoError(t, err)
		require.NotEqual(t, want, append([]float32{}, other...))
	}
}

func TestDraw(t *testing.T) {
	inf := float32(math.Inf(-1))
	even := []float32{inf, 0, inf, 0}
	for _, c := range []struct {
		logits         []float32
		temperature, u float64
		want           byte
	}{
		{even, 1, 0, 1}, {even, 1, 0.49, 1}, {even, 1, 0.51, 3}, {even, 1, math.Nextafter(1, 0), 3},
		{[]float32{0, 1}, 1, 0.26, 0}, {[]float32{0, 1}, 1, 0.27, 1}, // 1/(1+e) is 0.2689
		{[]float32{0, 1}, 0.01, 1e-9, 1}, {[]float32{0, 1}, 1e9, 0.4999, 0}, {[]float32{0, 1}, 1e9, 0.5001, 1},
		{[]float32{1000, 999}, 1, 0.5, 0},
	} {
		if got := draw(c.logits, c.temperature, c.u); got != c.want {
			t.Errorf("draw(%v, %v, %v) = %d, want %d", c.logits, c.temperature, c.u, got, c.want)
		}
	}
}

// No byte that a model writes does anything to a terminal.
func TestPrintable(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	got := printable(string(all))
	if strings.ContainsAny(got, "\x1b\x07\b\r\x00\x7f\u009b\ufffd") || len(got) != 256 || !strings.Contains(got, "\t\n") || !strings.Contains(got, "ABC") {
		t.Errorf("got %q", got)
	}
	if got, want := printable("für 2 €\u202e!"), "für 2 €?!"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
