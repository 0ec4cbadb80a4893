package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestREADME keeps the README's model, program and plan what they are.
func TestREADME(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	code, err := os.ReadFile("main.go")
	require.NoError(t, err)
	out, err := exec.Command("go", "run", ".").Output()
	require.NoError(t, err)
	program, plan, ok := strings.Cut(string(out), "\nplan ")
	require.True(t, ok, "%s", out)
	for what, want := range map[string]string{
		"the model":   string(code),
		"the program": strings.TrimSpace(program),
		"the plan":    "plan " + strings.TrimSpace(plan),
	} {
		if !strings.Contains(string(readme), want) {
			t.Errorf("README.md does not show %s of examples/layer as it is:\n%s", what, want)
		}
	}
}
