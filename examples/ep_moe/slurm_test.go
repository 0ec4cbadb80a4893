//go:build linux

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/testing/fleet"
)

// Slurm's ranks, which srun starts, find each other and compute what one process does.
// The cluster is the test's own.
func TestSlurm(t *testing.T) {
	cluster := fleet.NewSlurm(t)
	const mesh = "-mesh dp=2,ep=2 -iters 1"
	var one, stderr bytes.Buffer
	require.NoError(t, run(t.Context(), strings.Fields(mesh), &one, &stderr))
	want := one.String()
	require.Contains(t, want, "--check PASSED")
	for _, c := range slurmCases() {
		t.Run(c.name, func(t *testing.T) {
			out, err := srun(t, cluster, "-n 4 "+c.flags, mesh+" -transport "+c.transport, c.env)
			if c.refused == "" {
				if err != nil || out != want {
					t.Errorf("%v:\n%s\nwant\n%s", err, out, want)
				}
				return
			}
			if err == nil || strings.Contains(out, "PASSED") {
				t.Errorf("it succeeds, or computes something:\n%s", out)
			}
			if strings.Count(out, c.refused) != 4 {
				t.Errorf("not all 4 ranks say %q:\n%s", c.refused, out)
			}
		})
	}
}

// slurmCase is a way to start four ranks by srun.
type slurmCase struct {
	name, flags, transport string
	env                    string // NAME=value
	refused                string // what every rank says if it cannot work
}

// srun runs the command on the cluster, and returns what its processes have printed. It is
// quiet, since it would say when the resources of the job before are not yet free.
func srun(t *testing.T, cluster *fleet.Slurm, flags, args, env string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "srun", append(strings.Fields("--overcommit --quiet "+flags), os.Args[0])...)
	cmd.Env = append(os.Environ(), cluster.Env...)
	cmd.Env = append(cmd.Env, asCommand+"="+args, "GOMOE_SECRET=a secret that is only for tests", "GOMAXPROCS=1")
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // which it hands on
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}
