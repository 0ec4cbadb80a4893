package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two sides take turns, steps before the warm ones do not count, and the row has the medians and the ratio of each round.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	side := func(name, times string) side {
		return side{name: name, command: []string{"sh", "-c", "echo " + name + " >>" + log + "; echo " + times}, env: os.Environ(), warm: 1}
	}
	var out strings.Builder
	tr := &training{ctx: context.Background(), dir: dir, rounds: 2, out: &out}
	require.NoError(t, tr.compare(side("a", "99 10 20 30"), side("b", "99 40 40 50")))
	require.Equal(t, "| a / b | 20 | 40 | **0.50** (0.50, 0.50) |\n", out.String())
	turns, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, "a\nb\na\nb\n", string(turns))
	require.ErrorContains(t, tr.compare(side("a", "99"), side("b", "99 1")), "bench: a: 1 steps, want more than 1")
}

// A row of memory compares what the process had with what it said.
func TestPrintedMemory(t *testing.T) {
	n, err := printedMemory("mesh: 1 rank\nmemory: 1.5 GiB for 4 ranks: state 1 KiB\n")
	require.NoError(t, err)
	require.Equal(t, int64(3<<29), n)
	_, err = printedMemory("nothing")
	require.Error(t, err)
	path := filepath.Join(t.TempDir(), "m.csv")
	require.NoError(t, os.WriteFile(path, []byte("step,seconds\n1,0.5\n2,0.25\n"), 0o644))
	words, err := column(path, "seconds")
	require.NoError(t, err)
	require.Equal(t, []string{"0.5", "0.25"}, words)
}
