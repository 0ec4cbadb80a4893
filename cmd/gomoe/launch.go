package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/launch"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/world"
)

// exitStatus ends the command with the status of a child that has already reported its failure.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// transportTable returns a line for each transport.
func transportTable() string {
	var lines []string
	for _, t := range world.Transports() {
		lines = append(lines, fmt.Sprintf("  %-6s %s", t.Name, t.Doc))
	}
	return strings.Join(lines, "\n")
}

func (t *tool) launchCommand() *ffcli.Command {
	fs := t.flags("launch")
	var o launch.Options
	fs.IntVar(&o.Ranks, "n", 0, "`number` of ranks, as many on each host; one per host if not given")
	hosts := fs.String("hostfile", "", "`file` with the hosts, as mlx.distributed_config writes it; all ranks run on this machine if not given")
	fs.StringVar(&o.Transport, "transport", "", "`transport` for the data: "+world.TransportNames()+"; chosen by the ranks if not given")
	deadline := world.DeadlineFlag(fs)
	fs.Func("env", "set a variable for all ranks, as `NAME=value`; repeatable", func(s string) error {
		o.Env = append(o.Env, s)
		return hostfile.CheckEnv(s)
	})
	fs.StringVar(&o.Dir, "cwd", "", "`folder` to run in, on all hosts; this one if not given")
	shell := fs.String("ssh", strings.Join(launch.DefaultShell(), " "), "`command` that reaches a host; it gets the host and a command line")
	fs.IntVar(&o.Port, "port", 0, "`port` of rank 0's host at which ranks meet; any if not given")
	fs.DurationVar(&o.Grace, "grace", launch.DefaultGrace, "`time` that ranks have to end by themselves when one has failed")
	fs.IntVar(&o.Restarts, "restarts", 0, "how `often` a job that fails is started again, with the same command, which goes on from its checkpoints")
	fs.IntVar(&o.MinHosts, "min-hosts", 0, "minimum `number` of hosts: the job starts, and restarts, on the hosts of -hostfile that answer, or on fewer if its mesh requires it; 0 requires all")
	fs.BoolVar(&o.NUMA, "numa", false, "give each rank the processors of its share of this machine's nodes of memory; Linux only")
	return &ffcli.Command{
		Name: "launch", ShortUsage: "gomoe launch -n 4 [flags] -- COMMAND [args...]", ShortHelp: "Start a command once per rank, here or on several hosts.",
		FlagSet: fs,
		LongHelp: `Every line that a rank prints begins with its number. The first rank that fails ends the
others; which it was, how it ended and its last lines are printed at the end, and its exit
status is that of gomoe launch. Ctrl-C reaches all ranks, a second one kills them. Nothing
outlives gomoe launch.

  gomoe launch -n 4 -- go run ./examples/moe_lm       # built once
  gomoe launch -hostfile hosts.json -- ./moe_lm       # one rank per host, at the same path there
  gomoe launch -n 4 -restarts 3 -- moe_lm -save-every 100 -resume
  gomoe launch -hostfile hosts.json -min-hosts 2 -restarts 3 -- ./moe_lm -mesh dp=*,ep=2 -save-every 100 -resume

Ranks find their place in GOMOE_RANK, GOMOE_SIZE, GOMOE_COORDINATOR and so on, and in RANK,
WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. The transports:

` + transportTable(),
		Exec: func(ctx context.Context, args []string) error {
			o.Command, o.Stdout, o.Stderr, o.Deadline = args, t.stdout.To, t.stderr, *deadline
			if o.Shell = strings.Fields(*shell); len(o.Shell) == 0 {
				return usagef("-ssh is empty, want a command")
			}
			if *hosts == "" && !slices.Equal(o.Shell, launch.DefaultShell()) {
				return usagef("-ssh is for the hosts of -hostfile, which is not given")
			}
			if *hosts != "" {
				b, err := infile.ReadAny(ctx, *hosts, hostfile.MaxFile)
				if err != nil {
					return fmt.Errorf("-hostfile: %w", err)
				}
				h, err := hostfile.ParseHosts(b)
				if err != nil {
					return fmt.Errorf("-hostfile %s: %w", *hosts, err)
				}
				o.Hosts, o.Env = h.Hosts, append(h.Envs, o.Env...)
			} else if o.Ranks == 0 {
				return usagef("no ranks, want -n with their number, such as -n 4, or -hostfile")
			} else if o.MinHosts != 0 {
				return usagef("-min-hosts %d: want -hostfile with the hosts", o.MinHosts)
			}
			// Signals are passed on to the ranks, so that they can shut down cleanly. ctx would end
			// at the first signal.
			signals := make(chan os.Signal, 4)
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer signal.Stop(signals)
			o.Signals = signals
			status, err := launch.Run(context.WithoutCancel(ctx), o)
			if err != nil {
				wrong := errors.New(strings.TrimPrefix(err.Error(), "launch: ")) // the command's name is launch, too
				if option := (*launch.OptionError)(nil); errors.As(err, &option) {
					return &usageError{wrong}
				}
				return wrong
			}
			if status != 0 {
				return exitStatus(status)
			}
			return nil
		},
	}
}
