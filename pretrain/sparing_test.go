package pretrain

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
)

// Settings that save memory train as those that do not, on every mesh; the run says what it takes.
func TestSparing(t *testing.T) {
	text := corpus(t, "a.txt", prose)
	run := func(model, more string) (loss []string, said string) {
		out := filepath.Join(t.TempDir(), "out")
		if !strings.Contains(more, "batch\":") {
			more += `, "batch": 8`
		}
		said, err := follow(t, fmt.Sprintf(`{"model": {"model_type": %q, %s}, "data": {"files": [%q]}, "steps": 3, "length": 16, "eval_every": 2, "balance": 0 %s}`, model, small, text, more), out, false)
		require.NoError(t, err, more)
		return losses(t, out), said
	}
	for model, sparing := range map[string][]string{
		"olmoe":   {`, "microbatches": 4`, `, "remat": "products", "microbatches": 2, "mesh": "dp=2,ep=2", "zero": "weights"`},
		"gpt_oss": {`, "remat": "all", "microbatches": 2, "mesh": "ep=2"`},
	} {
		want, said := run(model, "")
		require.Contains(t, said, "\nmemory: ")
		require.Contains(t, said, " for 1 rank: state ")
		require.Contains(t, said, ", held-out ")
		for _, more := range sparing {
			got, said := run(model, more)
			for i := range want {
				alike(t, want[i], got[i])
			}
			if strings.Contains(more, "dp=2") && !strings.Contains(said, " for 4 ranks: state ") {
				t.Errorf("the run does not say what its ranks take:\n%s", said)
			}
		}
	}
	exact := `, "exact": true, "batch": 16, "microbatches": 2, "dtype": "bf16", "masters": true`
	one, _ := run("olmoe", exact)
	for _, mesh := range []string{"dp=2,ep=2", "ep=3"} {
		many, _ := run("olmoe", exact+`, "mesh": "`+mesh+`"`)
		require.Equal(t, one, many, "exact, in microbatches, on %s", mesh)
	}
}

// A step that is too large is an error that says with which settings it takes less.
func TestLighter(t *testing.T) {
	s, err := Parse("s.json", fmt.Appendf(nil, `{"model": {"model_type": "olmoe", %s}, "batch": 64, "length": 256}`, small))
	require.NoError(t, err)
	tok, _, err := s.tokenizer()
	require.NoError(t, err)
	m, err := s.open(tok)
	require.NoError(t, err)
	step := s.step(m, Options{})
	p, err := step.Trace(s.Mesh)
	require.NoError(t, err)
	cfg := s.placed(p)
	other := errors.New("something else")
	require.Equal(t, other, step.Lighter(t.Context(), other, cfg, s.lighter(m, Options{})))
	err = step.Lighter(t.Context(), fmt.Errorf("gomoe: %w", &gomoe.TooLargeError{Program: "train_step", Ranks: 1, Of: 1}), cfg, s.lighter(m, Options{}))
	t.Log(err)
	require.ErrorContains(t, err, "; with its inputs the step takes ")
	for _, want := range []string{`"remat": "products" (`, `"remat": "all" (`, `"microbatches": 2 (`, `"microbatches": 8 (`, `"dtype": "bf16" (`} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), `"zero"`, "there is one rank")
}

// A run whose loss is not finite says which settings change that.
func TestDiverges(t *testing.T) {
	text := corpus(t, "a.txt", prose)
	settings := fmt.Sprintf(`{"model": {%s}, "data": {"files": [%q]}, "steps": 9, "batch": 4, "length": 16, "eval_every": 0, "rate": {"peak": 1e30, "warmup": 0}}`, small, text)
	_, err := follow(t, settings, filepath.Join(t.TempDir(), "out"), false)
	require.ErrorContains(t, err, "training has diverged; lower rate.peak of s.json, or add -finite to see which kernel made the first NaN or infinity")
	s, err := Parse("s.json", []byte(settings))
	require.NoError(t, err)
	err = Run(t.Context(), t.Context(), s, Options{Out: filepath.Join(t.TempDir(), "out"), Finite: true})
	require.ErrorContains(t, err, "training has diverged; lower rate.peak of s.json: ")
	require.ErrorContains(t, err, "from finite arguments")
}

// With an address in the settings the run serves its steps, and says where.
func TestMetricsServed(t *testing.T) {
	text := corpus(t, "a.txt", prose)
	settings := `{"model": {%s}, "data": {"files": [%q]}, "steps": 1, "batch": 4, "length": 16, "eval_every": 0, "metrics": %q}`
	said, err := follow(t, fmt.Sprintf(settings, small, text, "127.0.0.1:0"), filepath.Join(t.TempDir(), "out"), false)
	require.NoError(t, err)
	require.Contains(t, said, "metrics: http://127.0.0.1:")
	_, err = follow(t, fmt.Sprintf(settings, small, text, "nowhere"), filepath.Join(t.TempDir(), "out"), false)
	require.ErrorContains(t, err, "metrics: listen tcp: address nowhere: missing port")
}
