package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/world"
)

// place is the location of one rank, and its parameters.
type place struct {
	job   environ.Job
	host  hostfile.Host
	local bool // on this machine
}

// where describes the place for messages.
func (p place) where() string {
	if p.local {
		return "this machine"
	}
	return p.host.SSH
}

// meeting is the meeting point of a job's ranks. listener is nil if rank 0 is elsewhere.
type meeting struct {
	address    string
	listener   *net.TCPListener
	masterPort int // for programs using only MASTER_PORT; it is not reserved
}

// places distributes the ranks over the hosts, in their order.
func (o Options) places(m meeting) []place {
	per := o.Ranks / len(o.Hosts)
	onHost := map[string]int{}
	id, secret := uuid.NewString(), environ.NewSecret()
	out := make([]place, o.Ranks)
	matrix := o.matrix()
	for r := range out {
		h := o.Hosts[r/per]
		out[r] = place{host: h, local: hostfile.IsLocal(h.SSH), job: environ.Job{
			Rank: r, Size: o.Ranks, LocalRank: onHost[machine(h)],
			Coordinator: m.address, ID: id, Secret: secret, Transport: o.Transport, Deadline: o.Deadline, Matrix: matrix,
		}}
		onHost[machine(h)]++
	}
	for r := range out {
		out[r].job.LocalSize = onHost[machine(out[r].host)]
	}
	return out
}

// matrix returns the RDMA devices between all ranks in JACCL's format, if every host
// lists its devices and has one rank. Otherwise it returns "".
func (o Options) matrix() string {
	if o.Ranks != len(o.Hosts) {
		return ""
	}
	rows := make([][][]string, len(o.Hosts))
	for i, h := range o.Hosts {
		if h.RDMA == nil {
			return ""
		}
		rows[i] = h.RDMA
	}
	b, err := json.Marshal(rows)
	if err != nil {
		return "" // cannot fail: these are strings
	}
	return string(b)
}

// meet determines the meeting point of the ranks. On this machine it is a port that is
// reserved from now on and handed to rank 0, if processes can inherit it.
func (o Options) meet() (meeting, error) {
	first := o.Hosts[0]
	others := false
	for _, h := range o.Hosts {
		others = others || !hostfile.IsLocal(h.SSH)
	}
	if !hostfile.IsLocal(first.SSH) {
		host := first.SSH[strings.LastIndexByte(first.SSH, '@')+1:]
		if len(first.IPs) > 0 {
			host = first.IPs[0]
		}
		// Below the range of ephemeral ports.
		port := o.Port
		if port == 0 {
			port = 16384 + rand.IntN(16383)
		}
		return meeting{address: net.JoinHostPort(host, strconv.Itoa(port)), masterPort: port + 1}, nil
	}
	host := "127.0.0.1"
	if others {
		if len(first.IPs) == 0 {
			return meeting{}, fmt.Errorf("launch: the first host is this machine and has no address in the hostfile; the others need one to reach rank 0: %s", `{"ssh": "localhost", "ips": ["10.0.0.1"]}`)
		}
		host = first.IPs[0]
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(o.Port)))
	if err != nil {
		return meeting{}, fmt.Errorf("launch: a port at which ranks meet: %w", err)
	}
	m := meeting{address: l.Addr().String(), listener: l.(*net.TCPListener)}
	if m.masterPort, err = freePort(host); err != nil {
		l.Close()
		return meeting{}, fmt.Errorf("launch: MASTER_PORT: %w", err)
	}
	return m, nil
}

// freePort returns a port that was free a moment ago.
func freePort(host string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// machine returns a name shared by all hosts that are the same machine.
func machine(h hostfile.Host) string {
	if hostfile.IsLocal(h.SSH) {
		return ""
	}
	return h.SSH
}

// environment returns a rank's environment. On this machine it has the launcher's
// variables, except variables of other launchers.
func (o Options) environment(p place, m meeting, restart int) []string {
	var out []string
	if p.local {
		own := map[string]bool{}
		for _, v := range environ.Variables() {
			own[v.Name] = true
		}
		delete(own, "JACCL_LIBRDMA") // depends on the machine
		delete(own, "GOMOE_FLIGHT")  // belongs to the user
		if o.Transport == "" {
			delete(own, "GOMOE_TRANSPORT")
		}
		for _, e := range os.Environ() {
			if name, _, _ := strings.Cut(e, "="); !own[name] {
				out = append(out, e)
			}
		}
	}
	out = append(out, p.job.Describe(m.masterPort)...)
	out = append(out, o.Env...)
	if restart == 0 {
		return out
	}
	const flight = "GOMOE_FLIGHT"
	for _, e := range slices.Backward(out) {
		if name, folder, _ := strings.Cut(e, "="); name == flight {
			if folder != "" && folder != "off" { // keep the records of earlier failures
				out = append(out, fmt.Sprintf("%s=%s/restart-%d", flight, folder, restart))
			}
			break
		}
	}
	return out
}

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
		if there[i] = hostfile.IsLocal(h.SSH); there[i] {
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
