package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func stepsOf(from, to int) []Step {
	var out []Step
	for i := from; i <= to; i++ {
		out = append(out, Step{Index: i, Loss: 5 / float64(i), LR: 3e-4, Norm: 2, Tokens: 100, Elapsed: time.Duration(i) * 123456789, Load: []float64{0.75, 0.25}, Drops: i % 2, Compute: 7 * time.Millisecond, Exchange: 3, Waiting: time.Duration(i)})
		if i%2 == 0 {
			out[len(out)-1].HeldOut = 5.5
		}
	}
	return out
}

// A resumed file has the rows that a file of one run has, whatever the earlier run had written behind them.
func TestResumeMetrics(t *testing.T) {
	write := func(m *Metrics, list []Step) {
		for _, s := range list {
			require.NoError(t, m.Step(s))
		}
		require.NoError(t, m.Close())
	}
	path := filepath.Join(t.TempDir(), "metrics.csv")
	m, err := CreateMetrics(path)
	require.NoError(t, err)
	write(m, stepsOf(1, 5))
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	m, err = CreateMetrics(path)
	require.NoError(t, err)
	write(m, stepsOf(1, 7))
	want, err := os.ReadFile(path)
	require.NoError(t, err)

	for _, c := range []struct {
		done int
		old  string
	}{{5, string(first)}, {3, string(first)}, {5, string(first) + "6,1.5,1."}, {3, string(first[:len(first)-7])}, {5, string(want)}, {7, string(want)}} {
		require.NoError(t, os.WriteFile(path, []byte(c.old), 0o644))
		m, kept, err := ResumeMetrics(path, c.done)
		require.NoError(t, err)
		require.Equal(t, stepsOf(1, c.done), kept)
		write(m, stepsOf(c.done+1, 7))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		if string(got) != string(want) {
			t.Errorf("resumed after %d steps:\n%s\nwant\n%s", c.done, got, want)
		}
	}
	// A file that is gone begins again, and is resumed, too.
	require.NoError(t, os.Remove(path))
	m, kept, err := ResumeMetrics(path, 3)
	require.NoError(t, err)
	require.Empty(t, kept)
	write(m, stepsOf(4, 6))
	m, kept, err = ResumeMetrics(path, 5)
	require.NoError(t, err)
	require.Equal(t, stepsOf(4, 5), kept)
	require.NoError(t, m.Close())

	for old, want := range map[string]string{
		"":                           "line 1 is not the header of metrics",
		"a,b\n1,2":                   "line 1 is not the header of metrics",
		string(first[:len(first)-7]): "a row of step 5 is wanted, as the checkpoint is of step 5: the file ends before it; put the file of that run there, or remove this one to begin another",
		strings.Replace(string(first), "\n3,", "\n4,", 1):      "a row of step 4, want one of step 3",
		strings.Replace(string(first), "\n3,", "\nthree,", 1):  `parsing "three"`,
		strings.Replace(string(first), "\n1,", "\n-1,", 1):     "a row of step -1, want one of step 1",
		strings.Replace(string(first), "\n2,2.5", "\n2,,", 1):  "wrong number of fields",
		strings.Replace(string(first), "\n2,2.5,", "\n2,,", 1): `parsing ""`,
	} {
		require.NoError(t, os.WriteFile(path, []byte(old), 0o644))
		_, _, err := ResumeMetrics(path, 5)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: got %v, want %q", old, err, want)
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, old, string(got))
	}
}
