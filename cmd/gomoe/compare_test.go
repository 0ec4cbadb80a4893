package main

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
)

// compareProcesses has four processes compare texts on 1, 2 and 4 ranks, and returns the text and what else is said. more are further flags.
func compareProcesses(t *testing.T, dir string, more ...string) (text, said string) {
	t.Helper()
	args := append([]string{"launch", "-n", "4", "--", os.Args[0], "generate", dir, "-prompt", "!\"#$", "-n", "30", "-compare", "1,2,4"}, more...)
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asTool+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%v: %s", more, &stderr)
	return stdout.String(), stderr.String()
}

const sameOnRanks = "[0] 30 tokens at temperature 0 and 30 at temperature 1, the same on 1, 2, 4 ranks\n"

// Four processes write the same tokens with the experts on 1, 2 and 4 ranks, the most likely ones and others, over every transport of a
// machine, and they are those of one process.
func TestCompareProcesses(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no transport shm, one of those compared")
	}
	dir := bytesModel(t)
	_, one, _ := generateRun(t, "", dir, "-prompt", "!\"#$", "-n", "30")
	for transport, ranks := range map[string]string{"tcp": "1,2,4", "shm": "1,2,4", "ring": "1,4"} { // which has no groups of some ranks
		text, said := compareProcesses(t, dir, "-transport", transport, "-compare", ranks)
		require.Equal(t, one, strings.ReplaceAll(text, "[0] ", ""), transport)
		require.Equal(t, strings.Replace(sameOnRanks, "1, 2, 4", strings.ReplaceAll(ranks, ",", ", "), 1), said, transport)
	}
	// Sums that come home in 16 bits are close to rows, and not the same.
	_, said := compareProcesses(t, dir, "-exchange", "sum", "-wire", "f16")
	require.Regexp(t, `on 2 ranks logits of up to [0-9.]+ are off by [0-9.e-]*[1-9], which is [0-9.e-]*[1-9] of the largest, and 0.002 of it is what sums may change; [0-9]+ of 60 tokens are the same\n`, said)
	require.Contains(t, said, "on 4 ranks logits")
}

// In one process sums are compared in the same way.
func TestCompareSums(t *testing.T) {
	dir := bytesModel(t)
	code, _, said := generateRun(t, "", dir, "-prompt", "!\"#$", "-n", "30", "-compare", "1,3", "-exchange", "sum")
	require.Equal(t, 0, code, said)
	require.Regexp(t, `^on 1 ranks logits .+\non 3 ranks logits of up to [0-9.]+ are off by \S+, which is \S+ of the largest, and 1e-05 of it is what sums may change; 60 of 60 tokens are the same\n$`, said)

	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer c.Close()
	var stderr bytes.Buffer
	g := &writing{opening: opening{tool: &tool{stderr: &stderr}, c: c}}
	rows := []written{{[]int32{1, 2}, [][]float32{{4, 1}, {3, 2}}}}
	g.o.Wire = graph.BF16
	require.NoError(t, g.near(2, rows, []written{{[]int32{1, 2}, [][]float32{{4.05, 1}, {3, 2}}}}))
	require.Contains(t, stderr.String(), "are off by 0.05, which is 0.013 of the largest, and 0.02 of it is what sums may change; 2 of 2 tokens are the same")
	require.ErrorContains(t, g.near(2, rows, []written{{[]int32{1, 2}, [][]float32{{4.1, 1}, {3, 2}}}}), "are off by 0.1, which is 0.025 of the largest")
	nan := float32(math.NaN())
	require.ErrorContains(t, g.near(2, rows, []written{{[]int32{1, 2}, [][]float32{{nan, 1}, {3, 2}}}}), "are off by NaN")
	// What follows another token is no matter of rounding.
	require.NoError(t, g.near(2, rows, []written{{[]int32{0, 2}, [][]float32{{4, 1}, {9, 9}}}}))
	require.Contains(t, stderr.String(), "0 of 2 tokens are the same")
}

// A token that is another, or missing, is an error.
func TestSameTokens(t *testing.T) {
	require.NoError(t, sameTokens(2, []int32{1, 2}, []int32{1, 2}))
	for _, ids := range [][]int32{{1}, {1, 3}, {1, 2, 3}} {
		require.ErrorContains(t, sameTokens(2, []int32{1, 2}, ids), "on 2 ranks is not that of the first")
	}
}

// Processes that are given no mesh are told one.
func TestProcessesWithoutMesh(t *testing.T) {
	dir := bytesModel(t)
	for _, args := range [][]string{{"generate", dir, "-prompt", "!"}, {"eval", dir, "-text", os.DevNull}} {
		cmd := exec.Command(os.Args[0], append([]string{"launch", "-n", "3", "--", os.Args[0]}, args...)...)
		cmd.Env = append(os.Environ(), asTool+"=1")
		said, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(said), "or take a mesh of 3 ranks: -mesh ep=3 splits the experts\n")
	}
}
