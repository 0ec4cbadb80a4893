package main

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"testing"
)

// The ranks' lines and the first failure's exit status are those of the command.
func TestLaunch(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs /bin/sh")
	}
	for _, c := range []struct {
		sh             string
		status         int
		stdout, stderr string
	}{
		{`echo $RANK of $WORLD_SIZE $A`, 0, "[1] 1 of 2 b c\n", ""},
		{`if [ $RANK = 1 ]; then exit 42; fi; sleep 100`, 42, "", "gomoe launch: FAILED: rank 1 exited with status 42 after "},
	} {
		var stdout, stderr bytes.Buffer
		status := run(context.Background(), []string{"launch", "-n", "2", "-env", "A=b c", "-grace", "1s", "--", "/bin/sh", "-c", c.sh}, nil, &stdout, &stderr)
		if status != c.status || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%s: status %d, want %d; standard output:\n%s\nstandard error:\n%s", c.sh, status, c.status, &stdout, &stderr)
		}
	}
}
