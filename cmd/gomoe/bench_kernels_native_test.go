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

// TestBenchKernels: all kernels on the emulated GPU, as lines, JSON and a plot. Numbers are
// the machine's, and the golden file has # for them.
func TestBenchKernels(t *testing.T) {
	needsEmulated(t)
	dir := t.TempDir()
	rows, plot := filepath.Join(dir, "rows.json"), filepath.Join(dir, "plot.png")
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{"bench", "kernels", "-small", "-runs", "1", "-device", "metal-emulated", "-json", rows, "-plot", plot}, nil, &out, &errs)
	require.Equal(t, 0, status, errs.String())
	number := regexp.MustCompile(` +(-|[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?)\b`)
	var masked strings.Builder
	head := strings.Index(out.String(), "host ms") - 4 // behind the names
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		masked.WriteString(line[:head] + number.ReplaceAllString(line[head:], " #") + "\n")
	}
	golden(t, filepath.Join("testdata", "bench_kernels.golden"), masked.String())
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
