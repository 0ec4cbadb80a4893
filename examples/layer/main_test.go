package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestREADME keeps the README's model, program and plan what they are. A line of … stands
// for lines that the README leaves out.
func TestREADME(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	code, err := os.ReadFile("main.go")
	require.NoError(t, err)
	out, err := exec.Command("go", "run", ".").Output()
	require.NoError(t, err)
	for begin, want := range map[string]string{
		"```go\n": string(code),
		"```console\n$ go run ./examples/layer\n": string(out),
	} {
		_, rest, ok := strings.Cut(string(readme), begin)
		require.True(t, ok, "README.md has no fence that begins with %q", begin)
		shown, _, _ := strings.Cut(rest, "```")
		for _, part := range strings.Split(shown, "…\n") {
			_, after, ok := strings.Cut(want, part)
			require.True(t, ok, "README.md shows\n%s\nwhich is not in this order in\n%s", part, want)
			want = after
		}
	}
}
