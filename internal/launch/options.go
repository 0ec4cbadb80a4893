package launch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/world"
)

// Options describe the job to start.
type Options struct {
	// Command is a program with its arguments. A name without a slash is looked up in
	// PATH; other relative paths begin at Dir. For "go run PACKAGE" the package is built
	// once, and the program is started.
	Command []string
	// Ranks is the number of ranks, a multiple of the number of Hosts; 0 means one per
	// host.
	Ranks int
	// Hosts are the machines for the ranks; the first ranks run on the first host.
	// Without hosts, all run on this machine. A host is this machine if its SSH is
	// localhost or a loopback address.
	Hosts []hostfile.Host
	// Shell is the command running a command line on another machine. Its last arguments
	// are the host's SSH and the command line. It must forward its standard streams and
	// the exit status. Empty means DefaultShell.
	Shell []string
	// Port is the port at which ranks meet if rank 0 is on another machine; 0 means one
	// chosen at random. If rank 0 is on this machine, a free port is reserved and handed
	// to it.
	Port int
	// Transport is the transport given to the ranks, one of world.Transports; empty gives
	// them none.
	Transport string
	// Deadline is the deadline given to the ranks; 0 means the value of the launcher's
	// GOMOE_DEADLINE, or none.
	Deadline time.Duration
	// Env are further variables, NAME=value, for all ranks; they override others.
	Env []string
	// Dir is the ranks' directory, on all machines; empty means the launcher's directory.
	Dir string
	// Grace is the time for ranks to end by themselves when the job is ending, before
	// they are killed; 0 means DefaultGrace.
	Grace time.Duration
	// Settle is the time after the first failure for the other ranks to print its effects
	// and to end by themselves, before they are told to end; 0 means defaultSettle.
	Settle time.Duration
	// Restarts is the number of times that a failing job is started again, with the same
	// command. A job ended by a signal is not. If GOMOE_FLIGHT names a folder, restart N
	// has its flight records in restart-N below it.
	Restarts int
	// MinHosts, if not 0, is the smallest number of hosts for the job. It is started on
	// the answering Hosts, with as many ranks on each as if all answered, and on one
	// fewer after a rank exits with world.StatusMisfit. 0 requires all.
	MinHosts int
	// NUMA binds ranks to memory nodes: a rank may run only on the processors of its
	// share of this machine's nodes, so that its memory is near. It is for ranks on this
	// machine, under Linux.
	NUMA bool
	// nodes is a folder like nodeFolder; nil means nodeFolder.
	nodes fs.FS
	// Stdout and Stderr get the output of ranks, line by line, with one Write per line.
	// Stderr also gets the launcher's messages. Nil drops the output. Ranks have no
	// input. While a Write blocks, printing ranks wait, and nothing else does. When the
	// job is ending, a blocking Write is abandoned, and may continue after Run has
	// returned.
	Stdout, Stderr io.Writer
	// Signals are forwarded to all ranks; after the first signal, ranks that do not end
	// are killed. Nil means no signals.
	Signals <-chan os.Signal
}

// defaultSettle is the time for ranks to report the effects of a failure. On a busy
// machine a rank needs some hundred milliseconds for that.
const defaultSettle = time.Second

// DefaultGrace is the time for ranks to end by themselves.
const DefaultGrace = 5 * time.Second

// DefaultShell is the command for other machines: ssh without questions, because nobody
// would answer.
func DefaultShell() []string { return []string{"ssh", "-o", "BatchMode=yes", "-T"} }

// maxRanks bounds the number of ranks, so that a mistyped number does not fill the
// machine.
const maxRanks = 4096

// OptionError describes a mistake in the Options themselves.
type OptionError struct{ err error }

func (e *OptionError) Error() string { return e.err.Error() }

func (e *OptionError) Unwrap() error { return e.err }

// complete returns the options with defaults filled in, or an error if they are invalid.
func (o Options) complete() (Options, error) {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return o, &OptionError{errors.New("launch: no command, want a program and its arguments behind --")}
	}
	hosts := len(o.Hosts)
	if o.Ranks == 0 {
		o.Ranks = hosts
	}
	var wrong error
	switch {
	case o.Ranks < 1 || o.Ranks > maxRanks:
		wrong = fmt.Errorf("launch: %d ranks, want 1 to %d", o.Ranks, maxRanks)
	case hosts > 0 && o.Ranks%hosts != 0:
		wrong = fmt.Errorf("launch: %d ranks on %d hosts, want as many on each: a multiple of %d", o.Ranks, hosts, hosts)
	case o.MinHosts < 0 || o.MinHosts > hosts:
		wrong = fmt.Errorf("launch: at least %d hosts of %d, want 1 to the number of hosts, or 0 for all", o.MinHosts, hosts)
	case o.Port < 0 || o.Port > 65535:
		wrong = fmt.Errorf("launch: port %d, want 1 to 65535, or 0 for any", o.Port)
	case o.Transport != "" && world.TransportOf(o.Transport).Name == "":
		wrong = fmt.Errorf("launch: transport %s, want one of %s", quoted.Text(o.Transport), world.TransportNames())
	case o.Transport == "local" && o.Ranks > 1:
		wrong = fmt.Errorf("launch: transport local is for ranks of one process, and these are %d; want tcp or shm", o.Ranks)
	case o.Restarts < 0:
		wrong = fmt.Errorf("launch: %d restarts, want at least 0", o.Restarts)
	case o.Grace < 0:
		wrong = fmt.Errorf("launch: grace of %v, want at least 0", o.Grace)
	case o.Settle < 0:
		wrong = fmt.Errorf("launch: %v to settle, want at least 0", o.Settle)
	}
	if wrong != nil {
		return o, &OptionError{wrong}
	}
	if o.Deadline == 0 {
		var err error
		if o.Deadline, err = environ.Deadline(os.Getenv); err != nil {
			return o, err
		}
	}
	for _, e := range o.Env {
		if err := hostfile.CheckEnv(e); err != nil {
			return o, &OptionError{fmt.Errorf("launch: environment: %w", err)}
		}
	}
	if hosts == 0 {
		o.Hosts = []hostfile.Host{{SSH: "localhost"}}
	}
	if len(o.Shell) == 0 {
		o.Shell = DefaultShell()
	}
	if o.nodes == nil {
		o.nodes = os.DirFS(nodeFolder)
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.Settle == 0 {
		o.Settle = defaultSettle
	}
	if o.Stdout == nil {
		o.Stdout = io.Discard
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("launch: %w", err)
	}
	o.Dir = dir
	return o, nil
}
