//go:build soak && linux

package soak

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/testing/fleet"
)

// faults are what happens to jobs. Each launches one, lets something happen, waits for the end
// and checks it, and returns when it happened.
var faults = map[string]func(j *job) time.Time{
	"nothing":         (*job).undisturbed,
	"kill":            (*job).kill,
	"stop":            (*job).stop,
	"pause":           (*job).pause,
	"pause all":       (*job).pauseAll,
	"cut":             (*job).cut,
	"full disk":       (*job).fullDisk,
	"no reader":       (*job).noReader,
	"late reader":     (*job).lateReader,
	"interrupt":       func(j *job) time.Time { return j.interrupt(syscall.SIGINT) },
	"terminate":       func(j *job) time.Time { return j.interrupt(syscall.SIGTERM) },
	"launcher killed": (*job).launcherKilled,
}

const (
	some    = 1500     // steps of a run that is to end by itself
	forever = 10000000 // steps of one that is not
)

var four = []string{"-n", fmt.Sprint(ranks)}

// succeeds checks that the run has ended well, with the loss that all such runs have.
func (j *job) succeeds() {
	j.Helper()
	require.Equal(j, 0, j.finish(), "the exit status")
	found := regexp.MustCompile(`\] loss (\S+) nats`).FindStringSubmatch(j.said.String())
	require.NotNil(j, found, "a line with the loss")
	if j.loss == "" {
		j.bench.loss = found[1]
	}
	require.Equal(j, j.loss, found[1], "the loss of a run like all others")
	for _, name := range []string{"metrics.csv", "training.png"} {
		require.FileExists(j, filepath.Join(j.out, name))
	}
}

func (j *job) undisturbed() time.Time {
	j.launch(j.train(some, j.out), nil, four)
	j.listen()
	began := time.Now()
	j.succeeds()
	return began
}

// A rank that is killed is named by all others.
func (j *job) kill() time.Time {
	j.launch(j.train(forever, j.out), nil, four)
	j.trains()
	victim := j.rng.IntN(ranks)
	j.signal(victim, syscall.SIGKILL)
	since := time.Now()
	assert.Equal(j, 137, j.finish(), "the exit status")
	j.blames(victim)
	assert.Contains(j, j.errs.String(), fmt.Sprintf("rank %d was ended by SIGKILL", victim))
	return since
}

// A rank that stops for longer than the deadline is named by all others, and does not stay.
func (j *job) stop() time.Time {
	j.launch(j.train(forever, j.out), nil, four)
	j.trains()
	victim := j.rng.IntN(ranks)
	j.signal(victim, syscall.SIGSTOP)
	since := time.Now()
	assert.NotZero(j, j.finish(), "the exit status")
	j.blames(victim)
	return since
}

// A rank that stops for less than the deadline is waited for.
func (j *job) pause() time.Time {
	j.launch(j.train(some, j.out), nil, four)
	j.listen()
	j.eventually("a first step", func() bool { return strings.Contains(j.said.String(), "] step ") })
	victim := j.rng.IntN(ranks)
	j.signal(victim, syscall.SIGSTOP)
	since := time.Now()
	time.Sleep(deadline / 4)
	j.signal(victim, syscall.SIGCONT)
	j.succeeds()
	return since
}

// All ranks stop, as on a laptop that sleeps, for longer than the deadline.
func (j *job) pauseAll() time.Time {
	j.launch(j.train(some, j.out), nil, four)
	j.listen()
	j.eventually("a first step", func() bool { return strings.Contains(j.said.String(), "] step ") })
	since := time.Now()
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		for r := range ranks {
			j.signal(r, s)
		}
		if s == syscall.SIGSTOP {
			time.Sleep(deadline * 3 / 2)
		}
	}
	j.succeeds()
	return since
}

// A host without its network is named by all others, and ends, too.
func (j *job) cut() time.Time {
	net := fleet.NewNetwork(j.T, ranks)
	var hosts, cases []string
	for i := range ranks {
		hosts = append(hosts, fmt.Sprintf(`{"ssh": "host%d", "ips": [%q]}`, i, net.Address(i)))
		cases = append(cases, fmt.Sprintf("host%d) exec %s sh -c \"$2\" ;;", i, strings.Join(net.In(i), " ")))
	}
	file, ssh := filepath.Join(j.tmp, "hosts.json"), filepath.Join(j.tmp, "ssh")
	require.NoError(j, os.WriteFile(file, []byte(`{"hosts": [`+strings.Join(hosts, ", ")+`]}`), 0o600))
	require.NoError(j, os.WriteFile(ssh, []byte("#!/bin/sh\ncase \"$1\" in\n"+strings.Join(cases, "\n")+"\nesac\n"), 0o700))
	j.transport = "tcp"
	j.launch(j.train(forever, j.out), nil, []string{"-hostfile", file, "-ssh", ssh, "-env", "TMPDIR=" + j.tmp, "-env", "GOMOE_DEADLINE=" + deadline.String()})
	j.trains()
	victim := j.rng.IntN(ranks)
	net.Cut(victim)
	since := time.Now()
	assert.NotZero(j, j.finish(), "the exit status")
	j.blames(victim)
	require.NoError(j, os.Remove(file))
	require.NoError(j, os.Remove(ssh))
	return since
}

// A disk that is full is an error of the run.
func (j *job) fullDisk() time.Time {
	require.NoError(j, os.Mkdir(j.out, 0o700))
	mount, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", j.out).CombinedOutput()
	require.NoError(j, err, "%s", mount)
	defer exec.Command("umount", "-l", j.out).Run()
	j.launch(j.train(some, j.out), nil, four)
	j.listen()
	began := time.Now()
	assert.NotZero(j, j.finish(), "the exit status")
	assert.Contains(j, j.errs.String(), "no space left on device")
	return began
}

// flood is a command that writes much before it does anything else.
func flood(then []string) []string {
	return append([]string{"sh", "-c", `seq 300000; exec "$@"`, "sh"}, then...)
}

// A launcher whose output nobody reads ends all the same when a rank is lost.
func (j *job) noReader() time.Time {
	j.launch(append([]string{"sh", "-c", `[ "$GOMOE_RANK" = 0 ] || { sleep 2; exit 3; }; exec yes`}, "sh"), nil, four)
	began := time.Now()
	assert.Equal(j, 3, j.finish(), "the exit status")
	assert.Regexp(j, `FAILED: rank [123] exited with status 3`, j.errs.String())
	return began
}

// Output that is read late is all there, or the launcher says how much it has left out.
func (j *job) lateReader() time.Time {
	j.launch(flood(j.train(100, j.out)), nil, four)
	began := time.Now()
	time.Sleep(3 * time.Second)
	j.listen()
	require.Equal(j, 0, j.finish(), "the exit status")
	j.eventually("all output", func() bool {
		return strings.Count(j.said.String(), "] 300000\n") == ranks || strings.Contains(j.errs.String(), " of standard output ")
	})
	return began
}

// A job that is interrupted ends in order: with its files, and in time.
func (j *job) interrupt(s syscall.Signal) time.Time {
	j.launch(j.train(forever, j.out), nil, four)
	j.trains()
	require.NoError(j, j.cmd.Process.Signal(s))
	since := time.Now()
	j.finish()
	for _, name := range []string{"metrics.csv", "training.png"} {
		assert.FileExists(j, filepath.Join(j.out, name))
	}
	return since
}

// Without their launcher the ranks end.
func (j *job) launcherKilled() time.Time {
	j.launch(j.train(forever, j.out), nil, four)
	j.trains()
	require.NoError(j, j.cmd.Process.Kill())
	since := time.Now()
	for end := since.Add(patience); len(j.processes()) > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	return since
}
