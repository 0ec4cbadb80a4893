package main

import (
	"bytes"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/measure"
)

// TestBenchCollectives: every operation of ranks in this process, as lines, JSON and a
// plot.
func TestBenchCollectives(t *testing.T) {
	dir := t.TempDir()
	rows, plot := filepath.Join(dir, "rows.json"), filepath.Join(dir, "plot.png")
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{"bench", "collectives", "-transport", "local", "-n", "2", "-max", "64", "-batches", "1", "-batch", "100us",
		"-tokens", "16", "-hidden", "8", "-experts", "4", "-top-k", "2", "-json", rows, "-plot", plot}, nil, &out, &errs)
	require.Equal(t, 0, status, errs.String())
	b, err := os.ReadFile(rows)
	require.NoError(t, err)
	seen := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		var r measure.Row
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		seen[r.Op]++
	}
	for op, n := range map[string]int{"all_sum": 3, "all_to_all": 3, "broadcast": 3, "barrier": 1, "dispatch": 1, "combine": 1} {
		if seen[op] != n {
			t.Errorf("%d rows of %s, want %d", seen[op], op, n)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1+strings.Count(string(b), "\n") {
		t.Errorf("%d lines are printed for %d rows:\n%s", n, strings.Count(string(b), "\n"), out.String())
	}
	f, err := os.Open(plot)
	require.NoError(t, err)
	defer f.Close()
	_, err = png.Decode(f)
	require.NoError(t, err)
}

func TestBenchUsage(t *testing.T) {
	for want, args := range map[string]string{
		"no subcommand":               "bench",
		"no subcommand \"kernel\"":    "bench kernel",
		"-n 0":                        "bench collectives -n 0",
		"no operation \"dance\"":      "bench collectives -ops dance",
		"-experts 6: want a multiple": "bench collectives -n 4 -experts 6",
		"grow by 1":                   "bench collectives -factor 1",
		"arguments [\"tcp\"]":         "bench collectives tcp",
		"-tokens -1":                  "bench collectives -tokens -1",
		"some of all_sum, all_gather": "bench collectives -ops dance",
		"batches of -1s":              "bench collectives -batch -1s",
		"batches of 0s":               "bench collectives -batch 0s",
		"no transport \"\", want some of local, tcp, shm": "bench collectives -transport ,",
		"no transport \"udp\"":                            "bench collectives -transport local,udp",
		"-hidden 100000000000":                            "bench collectives -hidden 100000000000",
		"-max 64GiB: 4 ranks would need about 512.0 GiB":  "bench collectives -max 64GiB",
	} {
		var out, errs bytes.Buffer
		if status := run(t.Context(), strings.Fields(args), nil, &out, &errs); status != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: status %d, %q, want %q", args, status, errs.String(), want)
		}
		if out.Len() > 0 {
			t.Errorf("%s prints %q before the mistake is found", args, &out)
		}
	}
}

// Files that cannot be written are found before anything is measured, and a transport
// that this program lacks before anything is printed.
func TestBenchOutputs(t *testing.T) {
	for _, args := range []string{"-json", "-plot"} {
		var out, errs bytes.Buffer
		path := filepath.Join(t.TempDir(), "no", "such")
		status := run(t.Context(), []string{"bench", "collectives", "-transport", "local", args, path}, nil, &out, &errs)
		if status != exitWrong || out.Len() > 0 || !strings.HasPrefix(errs.String(), "gomoe bench: "+args+": ") {
			t.Errorf("%s: status %d, output %q, %q", args, status, &out, &errs)
		}
	}
}

// What ranks said is not repeated for each of them.
func TestBenchFails(t *testing.T) {
	got := ofLauncher("[0] gomoe: no\n[1] gomoe: no\ngomoe launch: FAILED: rank 1\n    gomoe: no\n")
	if want := "gomoe launch: FAILED: rank 1\n    gomoe: no"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
