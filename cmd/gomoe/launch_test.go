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

// What is wrong with the command line of the launcher ends it as that of other commands does. What is wrong with the command that
// it is to start is not of its command line.
func TestLaunchUsage(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"-n -1 -- x", exitUsage, "-1 ranks, want 1 to 4096"},
		{"-n 100000 -- x", exitUsage, "100000 ranks, want 1 to 4096"},
		{"-n 2 -port -5 -- x", exitUsage, "port -5, want 1 to 65535"},
		{"-n 2 -cwd /no/such/folder -- x", exitUsage, "no folder /no/such/folder to run in"},
		{"-n 2 -transport foo -- x", exitUsage, `transport "foo", want one of`},
		{"-n 2 -restarts -1 -- x", exitUsage, "-1 restarts, want at least 0"},
		{"-n 2 --", exitUsage, "no command, want a program"},
		{"-n 2 -- no-such-program-anywhere", exitWrong, "command no-such-program-anywhere: "},
	} {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), append([]string{"launch"}, strings.Fields(c.args)...), nil, &stdout, &stderr)
		if status != c.status || !strings.Contains(stderr.String(), "gomoe launch: "+c.want) {
			t.Errorf("%s: status %d, want %d and %s; standard error:\n%s", c.args, status, c.status, c.want, &stderr)
		}
	}
}
