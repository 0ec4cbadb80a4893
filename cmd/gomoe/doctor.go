package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/cmd/internal/doctor"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/world"
)

func (t *tool) doctorCommand() *ffcli.Command {
	fs := t.flags("doctor")
	hosts := fs.String("hostfile", "", "`file` of the job's hosts, in the form of mlx.launch; none for this machine alone")
	transport := fs.String("transport", "", "transport for the data: "+world.TransportNames()+"; the hostfile's backend, or tcp, if not given")
	ranks := fs.Int("n", 1, "ranks per host")
	ssh := fs.String("ssh", "", "`command` by which hosts are reached, if not ssh -o BatchMode=yes -o ConnectTimeout=5")
	patience := fs.Duration("timeout", 30*time.Second, "how `long` hosts may take to answer")
	asJSON := fs.Bool("json", false, "print the findings as JSON")
	return &ffcli.Command{
		Name: "doctor", ShortUsage: "gomoe doctor [-hostfile hosts.json] [-transport verbs] [-n ranks]", FlagSet: fs,
		ShortHelp: "Look for what is wrong with the machines of a job, without running it.",
		LongHelp: "Checks the hostfile and its matrix of devices, asks every host through ssh for its addresses,\nlibraries, devices, limits and clock, and whether it reaches the others, and reads the environment\n" +
			"as a rank would; without a hostfile it also says what GPU this machine has. Every finding names the host or the pair, and the remedy. The exit status is 1 if\nthere is an error among them.",
		Exec: func(ctx context.Context, args []string) error {
			if rest, err := operands(fs, args); err != nil || len(rest) > 0 {
				if err == nil {
					err = usagef("arguments %s, want flags only", quoted.List(rest))
				}
				return err
			}
			if *ranks < 1 {
				return usagef("-n %d: want at least 1", *ranks)
			}
			s := doctor.Setup{Transport: *transport, Ranks: *ranks}
			if *hosts != "" {
				b, err := infile.ReadAny(ctx, *hosts, hostfile.MaxFile)
				if err != nil {
					return fmt.Errorf("-hostfile: %w", err)
				}
				if s.Hosts, err = hostfile.ParseHosts(b); err != nil {
					return in(*hosts, err)
				}
			}
			ctx, cancel := context.WithTimeout(ctx, *patience)
			defer cancel()
			report := append(environment(), doctor.Check(ctx, s, doctor.SSH{Command: strings.Fields(*ssh)})...)
			if *asJSON {
				if err := printJSON(t.stdout, report); err != nil {
					return err
				}
			} else if err := t.printReport(ctx, s, report); err != nil {
				return err
			}
			if report.Wrong() {
				return errReported
			}
			return nil
		},
	}
}

// environment returns findings about the environment that a rank started here inherits.
func environment() doctor.Report {
	r := doctor.Report{}
	if _, err := kernel.Selected(); err != nil {
		r = append(r, doctor.Finding{Level: doctor.Wrong, Hosts: []string{"localhost"}, What: err.Error(), Fix: "gomoe version -kernels lists those that this processor runs"})
	}
	if name := os.Getenv("GOMOE_TRANSPORT"); name != "" {
		if err := world.Has(name); err != nil {
			r = append(r, doctor.Finding{Level: doctor.Wrong, Hosts: []string{"localhost"}, What: "GOMOE_TRANSPORT: " + err.Error(), Fix: "unset GOMOE_TRANSPORT, or set it to a transport that this program has"})
		}
	}
	job, err := environ.Detect(os.Getenv)
	if err != nil {
		return append(r, doctor.Finding{Level: doctor.Wrong, Hosts: []string{"localhost"}, What: err.Error(), Fix: "unset the other launcher's leftover variables"})
	}
	if job.InProcess() {
		return r
	}
	if _, err := job.Key(""); err != nil {
		r = append(r, doctor.Finding{Level: doctor.Wrong, Hosts: []string{"localhost"}, What: err.Error(), Fix: "start the ranks by gomoe launch, which hands a secret on"})
	}
	return r
}

// printReport prints the variables that are set, the devices of this machine if the report covers
// no other machine, and the findings.
func (t *tool) printReport(ctx context.Context, s doctor.Setup, report doctor.Report) error {
	variables := append([]environ.Variable{{Name: "GOMOE_KERNELS", Meaning: "the kernels of this process; if not set, the best that the processor runs"}}, deviceVariables()...)
	variables = append(variables, environ.Variables()...)
	for _, v := range variables {
		value := os.Getenv(v.Name)
		if value == "" {
			continue
		}
		if v.Secret {
			value = "***"
		}
		fmt.Fprintf(t.stdout, "%s=%s  %s\n", v.Name, value, v.Meaning)
	}
	if s.Hosts == nil {
		if err := t.printDevices(ctx); err != nil {
			return err
		}
	}
	for _, f := range report {
		fmt.Fprintln(t.stdout, f)
	}
	counts := map[doctor.Level]int{}
	for _, f := range report {
		counts[f.Level]++
	}
	hosts := 1
	if s.Hosts != nil {
		hosts = len(s.Hosts.Hosts)
	}
	_, err := fmt.Fprintf(t.stdout, "%s: %s, %s, %s\n", plural(hosts, "host"), plural(counts[doctor.Wrong], "error"), plural(counts[doctor.Warning], "warning"), plural(counts[doctor.Note], "note"))
	return err
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
