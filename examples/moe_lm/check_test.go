package main

import (
	"os"
	"strings"
	"testing"
)

func TestCheckPasses(t *testing.T) {
	for _, flags := range []string{"", "-mesh dp=1,ep=8", "-mesh dp=4", "-mesh ep=2,dp=2 -capacity 0.5", "-mesh ep=2 -order 1,0", "-mesh tp=2", "-mesh dp=2,ep=2,tp=2", "-mesh=",
		"-dtype bf16", "-dtype bf16 -mesh dp=1,ep=8", "-dtype bf16 -mesh ep=2,dp=2 -capacity 0.5", "-dtype bf16 -mesh dp=2,tp=2"} {
		args, out := tiny(t, strings.Fields("-check "+flags)...)
		stdout, err := execute(t, args...)
		if err != nil {
			t.Errorf("%s: %v\n%s", flags, err, stdout)
		}
		if !strings.Contains(stdout, "\n--check PASSED (loss ") || strings.Contains(stdout, "WRONG") {
			t.Errorf("%s:\n%s", flags, stdout)
		}
		for _, name := range []string{"loss ", "gradient norm ", "embed ", "l0_router ", "l1_gate ", "head "} {
			if !strings.Contains(stdout, "\n"+name) {
				t.Errorf("%s: nothing is said of %s:\n%s", flags, name, stdout)
			}
		}
		for _, line := range strings.Split(stdout, "\n") {
			if len(line) > 80 {
				t.Errorf("%s: %d columns: %s", flags, len(line), line)
			}
		}
		if _, err := os.Stat(out); !os.IsNotExist(err) {
			t.Errorf("%s: -check leaves %s behind", flags, out)
		}
	}
}
