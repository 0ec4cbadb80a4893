//go:build linux && native

package main

import (
	"bytes"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/measure"
)

// masked returns a table with # for the numbers behind the names of cases, which end before the
// first number's column.
func masked(table, first string) string {
	number := regexp.MustCompile(` +(-|[0-9]+(\.[0-9]+)?(e[-+][0-9]+|[kMG]\b)?)( [mat]\b)?`)
	head := strings.Index(table, first) - 4
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		if i > 0 {
			line = line[:head] + number.ReplaceAllString(line[head:], " #")
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// TestBenchKernels: all kernels on the emulated GPU, as lines, JSON and a plot. Numbers are
// the machine's, and the golden file has # for them.
func TestBenchKernels(t *testing.T) {
	needsEmulated(t)
	dir := t.TempDir()
	rows, plot := filepath.Join(dir, "rows.json"), filepath.Join(dir, "plot.png")
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{"bench", "kernels", "-small", "-runs", "1", "-device", "metal-emulated", "-json", rows, "-plot", plot}, nil, &out, &errs)
	require.Equal(t, 0, status, errs.String())
	golden(t, filepath.Join("testdata", "bench_kernels.golden"), masked(out.String(), "host ms"))
	b, err := os.ReadFile(rows)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, line := range lines {
		var r measure.Row
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		if r.Kernel == "" || r.Wrong() || r.GPU <= 0 {
			t.Errorf("%s", line)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1+len(lines) {
		t.Errorf("%d lines are printed for %d rows", n, len(lines))
	}
	f, err := os.Open(plot)
	require.NoError(t, err)
	defer f.Close()
	_, err = png.Decode(f)
	require.NoError(t, err)

	out.Reset()
	status = run(t.Context(), []string{"bench", "kernels", "-small", "-runs", "1", "-device", "metal-emulated", "-only", "rope", "-json", "-"}, nil, &out, &errs)
	if got := strings.Count(out.String(), `"kernel":"rope"`); status != 0 || got != 2 || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("status %d, and of rope:\n%s", status, out.String())
	}
}

// TestBenchKernelsCount: counts depend on what the compiler leaves of a kernel, and the golden file
// has # for them.
func TestBenchKernelsCount(t *testing.T) {
	needsEmulated(t)
	var out, errs bytes.Buffer
	args := []string{"bench", "kernels", "-count", "-small", "-only", "dot_general,rope,attention"}
	status := run(t.Context(), args, nil, &out, &errs)
	require.Equal(t, 0, status, errs.String())
	golden(t, filepath.Join("testdata", "bench_kernels_count.golden"), masked(out.String(), "disp"))
	out.Reset()
	status = run(t.Context(), append(args, "-json", "-"), nil, &out, &errs)
	require.Equal(t, 0, status, errs.String())
	var r measure.Row
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(out.String(), "\n", 2)[0]), &r))
	require.Positive(t, r.Counts.Kernels.Operations)
	require.Equal(t, 2, run(t.Context(), append(args, "-plot", "x.png"), nil, &out, &errs))
}
