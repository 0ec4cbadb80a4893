package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
)

// asTool makes this test's own binary the tool: gomoe bench collectives starts itself
// as the ranks.
const asTool = "GOMOE_TEST_TOOL"

// Ranks of MLX's ring that gomoe starts find each other by themselves: those of a job,
// and those that measure.
func TestRing(t *testing.T) {
	t.Setenv(asTool, "1")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bench := []string{"bench", "collectives", "-transport", "ring", "-ops", "all_sum", "-min", "64", "-max", "64", "-batches", "2", "-batch", "1ms", "-tokens", "0"}
	for _, words := range [][]string{
		append([]string{"launch", "-n", "3", "-transport", "ring", "--", exe}, bench...),
		append(bench, "-n", "3"),
	} {
		var stdout, stderr bytes.Buffer
		if status := run(context.Background(), words, nil, &stdout, &stderr); status != 0 {
			t.Errorf("%v: status %d:\n%s", words[0], status, &stderr)
		}
		found := false
		for line := range strings.Lines(stdout.String()) {
			f := strings.Fields(strings.TrimPrefix(line, "[0] "))
			found = found || len(f) > 3 && f[0] == "ring" && f[1] == "all_sum" && f[2] == "3" && f[3] == "64"
		}
		if !found {
			t.Errorf("%v: no line about all_sum of 3 ranks of a ring:\n%s%s", words[0], &stdout, &stderr)
		}
	}
}
