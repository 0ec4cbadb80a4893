package main

import (
	"context"
	"fmt"
	"io"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/internal/flight"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/tracefile"
	"github.com/gomoe/gomoe/internal/whole"
)

func (t *tool) traceCommand() *ffcli.Command {
	fs := t.flags("trace")
	return group(&ffcli.Command{
		Name: "trace", ShortUsage: "gomoe trace merge | flight FILE...", FlagSet: fs,
		ShortHelp:   "Work on what the ranks of a job recorded.",
		LongHelp:    "merge makes one trace for Perfetto of those that the processes of a job wrote with -trace,\nflight prints side by side where the ranks of a failed job were.",
		Subcommands: []*ffcli.Command{t.mergeCommand(), t.flightCommand()},
	})
}

// group makes a command with two subcommands require one of them, naming both in its error.
func group(c *ffcli.Command) *ffcli.Command {
	c.Exec = func(_ context.Context, args []string) error {
		want := c.Subcommands[0].Name + " or " + c.Subcommands[1].Name
		if len(args) == 0 {
			return usagef("no subcommand, want %s", want)
		}
		return usagef("there is no subcommand %s, want %s", quoted.Text(args[0]), want)
	}
	return c
}

func (t *tool) mergeCommand() *ffcli.Command {
	fs := t.flags("trace merge")
	out := fs.String("out", "trace.json", "`file` for the merged trace")
	return &ffcli.Command{
		Name: "merge", ShortUsage: "gomoe trace merge [-out trace.json] FILE...", FlagSet: fs,
		ShortHelp: "Merge the traces of a job's processes into one for Perfetto.",
		LongHelp:  "Every process of a job measures how far its clock is from rank 0's and writes that into\nits trace; times of the merged one are rank 0's.",
		Exec: func(_ context.Context, args []string) (err error) {
			paths, err := operands(fs, args)
			if err != nil {
				return err
			}
			if len(paths) == 0 {
				return usagef("no files, want the traces of a job's ranks")
			}
			var in []tracefile.Input
			for _, p := range paths {
				f, _, err := infile.Open(p)
				if err != nil {
					return err
				}
				defer f.Close()
				in = append(in, tracefile.Input{Name: p, R: f})
			}
			if err := whole.Apart(*out, paths...); err != nil {
				return usagef("-out: %w", err)
			}
			var m tracefile.Merged
			err = whole.Write(*out, func(w io.Writer) (err error) {
				m, err = tracefile.Merge(w, in)
				return err
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(t.stdout, "%s: ranks %v, %d events, times of different ranks within %v\n", *out, m.Ranks, m.Events, m.Uncertain)
			return nil
		},
	}
}

func (t *tool) flightCommand() *ffcli.Command {
	fs := t.flags("trace flight")
	return &ffcli.Command{
		Name: "flight", ShortUsage: "gomoe trace flight FILE...", FlagSet: fs,
		ShortHelp: "Print side by side where the ranks of a failed job were.",
		LongHelp:  "The files are those that every rank of a job wrote when it failed: its last operations.",
		Exec: func(_ context.Context, args []string) error {
			paths, err := operands(fs, args)
			if err != nil {
				return err
			}
			if len(paths) == 0 {
				return usagef("no files, want the records of a job's ranks")
			}
			var dumps []flight.Dump
			for _, p := range paths {
				d, err := flight.Read(p)
				if err != nil {
					return err
				}
				dumps = append(dumps, d)
			}
			text, err := flight.Compare(dumps)
			fmt.Fprint(t.stdout, text)
			return err
		},
	}
}
