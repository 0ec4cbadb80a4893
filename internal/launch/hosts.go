package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/world"
)

// answer is the time limit for a host to answer before a job starts without it.
const answer = 15 * time.Second

// reach reduces the hosts to the ones that answer, or to as many of them as the ranks run
// on, reporting whether there are enough. A job needing all hosts fails when starting.
func (j *job) reach(ctx context.Context) bool {
	if j.MinHosts == 0 {
		return true
	}
	answers, silent := j.ask(ctx)
	if j.stopped != nil {
		return false
	}
	if len(silent) > 0 {
		j.err.say("gomoe launch: no answer from %s", strings.Join(silent, ", "))
	}
	n := j.most(len(answers))
	if n == 0 {
		j.short = true
		j.err.say("gomoe launch: %d of %d hosts are there, want at least %d", len(answers), len(j.Hosts), j.MinHosts)
		if j.before == 0 {
			j.before = 1
		}
		return false
	}
	if n < len(j.Hosts) {
		j.err.say("gomoe launch: the job runs on %d of %d hosts", n, len(j.Hosts))
	}
	j.take(answers[:n])
	return true
}

// most returns the number of hosts, at most the given number, on which the job may run: 0
// if they are too few.
func (j *job) most(hosts int) int {
	least := j.MinHosts
	if least == 0 {
		least = len(j.Hosts)
	}
	for ; hosts >= least; hosts-- {
		if !j.misfits[hosts] {
			return hosts
		}
	}
	return 0
}

// misfit reports whether the ranks have reported that they do not run on this number of
// hosts.
func (j *job) misfit() bool { return j.first != nil && j.first.status() == world.StatusMisfit }

// ask returns the indices of the hosts that answer, and the names of the others with the reason.
func (j *job) ask(ctx context.Context) (answers []int, silent []string) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	there, why := make([]bool, len(j.Hosts)), make([]string, len(j.Hosts))
	var all sync.WaitGroup
	for i, h := range j.Hosts {
		if there[i] = here(h); there[i] {
			continue
		}
		all.Go(func() {
			command := append(slices.Clone(j.Shell), h.SSH, "exit 0")
			cmd := exec.CommandContext(ctx, command[0], command[1:]...)
			cmd.WaitDelay = time.Second
			var said bytes.Buffer
			cmd.Stderr = &said
			err := cmd.Run()
			there[i], why[i] = err == nil, reason(ctx, err, said.String())
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); all.Wait() }()
	select {
	case <-done:
		if errors.Is(ctx.Err(), context.Canceled) {
			j.stopped = syscall.SIGTERM
		}
	case j.stopped = <-j.Signals:
		cancel()
		<-done
	}
	for i, h := range j.Hosts {
		if there[i] {
			answers = append(answers, i)
		} else {
			silent = append(silent, fmt.Sprintf("%s (%s)", h.SSH, why[i]))
		}
	}
	return answers, silent
}

// reason returns the reason why the remote command has failed: its last line of output,
// if there is one.
func reason(ctx context.Context, err error, said string) string {
	said = strings.TrimSpace(said)
	switch {
	case err == nil:
		return ""
	case said != "":
		return said[strings.LastIndex(said, "\n")+1:]
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("nothing within %v", answer)
	}
	return err.Error()
}

// take reduces the hosts to these indices, with the devices between them.
func (j *job) take(hosts []int) {
	per := j.Ranks / len(j.Hosts)
	var left []hostfile.Host
	for _, i := range hosts {
		h := j.Hosts[i]
		if len(h.RDMA) == len(j.Hosts) {
			var to [][]string
			for _, k := range hosts {
				to = append(to, h.RDMA[k])
			}
			h.RDMA = to
		}
		left = append(left, h)
	}
	j.Hosts, j.Ranks = left, per*len(left)
}
