package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMetrics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.csv")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("an older and longer file\n", 100)), 0o644))
	m, err := CreateMetrics(path)
	require.NoError(t, err)
	want := "step,loss,smoothed,held_out,aux,lr,grad_norm,tokens,seconds,tokens_per_second,drops,compute_seconds,exchange_seconds,waiting_seconds,expert_0,expert_1\n"
	for _, row := range []struct {
		step Step
		text string
	}{
		{Step{Index: 1, Loss: 5.5, Aux: 1.25, LR: 3e-4, Norm: 2, Tokens: 100, Elapsed: 500 * time.Millisecond, Compute: 250 * time.Millisecond, Exchange: 125 * time.Millisecond,
			Load: []float64{0.75, 0.25}, Drops: 7},
			"1,5.5,5.5,,1.25,0.0003,2,100,0.5,200,7,0.25,0.125,0,0.75,0.25\n"},
		{Step{Index: 2, Loss: math.NaN(), HeldOut: 4.5, Aux: math.Inf(1), LR: 3e-4, Tokens: 100, Load: []float64{1, 0}},
			"2,NaN,5.5,4.5,+Inf,0.0003,0,100,0,NaN,0,0,0,0,1,0\n"},
	} {
		require.NoError(t, m.Step(row.step))
		want += row.text
		got, err := os.ReadFile(path) // before Close: an interrupt loses nothing
		require.NoError(t, err)
		if string(got) != want {
			t.Errorf("after step %d:\n%s\nwant\n%s", row.step.Index, got, want)
		}
	}
	if err := m.Step(Step{Index: 3, Load: []float64{1}}); err == nil || !strings.Contains(err.Error(), "1 experts, want 2") {
		t.Errorf("another number of experts: error %v", err)
	}
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll() // as many fields in each row
	require.NoError(t, err)
	require.Len(t, rows, 3)
}

// writes counts them.
type writes struct{ all []string }

func (w *writes) Write(b []byte) (int, error) {
	w.all = append(w.all, string(b))
	return len(b), nil
}

func TestMetricsRowIsOneWrite(t *testing.T) {
	var w writes
	m := NewMetrics(&w)
	for i := range 3 {
		require.NoError(t, m.Step(Step{Index: i + 1, Load: make([]float64, 200)}))
	}
	require.Len(t, w.all, 3)
	for i, b := range w.all {
		if !strings.HasSuffix(b, "\n") {
			t.Errorf("write %d is not whole rows: %q", i, b)
		}
	}
}

func TestMetricsErrors(t *testing.T) {
	why := errors.New("disk full")
	m := NewMetrics(brokenWriter{why})
	for i := range 2 {
		if err := m.Step(Step{Index: i + 1}); !errors.Is(err, why) {
			t.Errorf("step %d: error %v, want %v", i+1, err, why)
		}
	}
	if err := m.Close(); !errors.Is(err, why) {
		t.Errorf("close: error %v, want %v", err, why)
	}
	if _, err := CreateMetrics(filepath.Join(t.TempDir(), "no", "metrics.csv")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: error %v", err)
	}
}
