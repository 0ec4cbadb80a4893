package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

func (t *tool) planCommand() *ffcli.Command {
	fs := t.flags("plan")
	place := newPlacing(fs, true)
	place.overlapFlag(fs)
	place.deviceFlag(fs)
	brief := fs.Bool("brief", false, "print the report only")
	asJSON := fs.Bool("json", false, "print the report only, as JSON")
	after := fs.String("after", "", "print the plan as it is after this `pass`, without report; -passes lists them")
	passes := fs.Bool("passes", false, "print the passes that make plans, in their order, and take no FILE")
	choices := fs.Bool("choices", false, "instead of the plan, print a rank's memory and communication for each way of running the expert layers: exchange, blocks, row capacity, recomputation, wire types")
	wrt := fs.String("wrt", "", "with -choices, the `inputs` such as x,w with respect to which a gradient is taken, of the program's first result; none is no gradient")
	return &ffcli.Command{
		Name: "plan", ShortUsage: "gomoe plan FILE [-mesh ep=4 -place x=ep ...] [-brief | -json | -after PASS | -choices [-wrt x,w]] | -passes",
		ShortHelp: "Print what every rank runs, with its memory and communication.", FlagSet: fs,
		LongHelp: "A collective has the mark ⇄. b3@128 is a buffer 128 bytes into the arena, @in and @out\nare the memory of inputs and results. With -overlap, wait @7 says that a collective is waited for\nbefore instruction 7, and rows=b9 that b9 counts the rows in use of each expert. b3@kept is a copy of\nweights that is made when a step is given the same ones again. The report below gives bytes per rank;\nworkspace is what kernels take on all threads of this machine, which ranks of one process share.\nConstants are folded and equal equations merged before, instructions joined, and elementwise ones\nfused: the lines below a fused one, which begin with a dot, run a chunk at a time, and a buffer\nwithout @ is never stored. None of this changes a bit of the results; -as-written plans without.\nWith -device, which need not be there, ◆ marks what runs on it, and all else says why it does not.",
		Exec: func(ctx context.Context, args []string) error {
			if *passes {
				if len(args) > 0 {
					return usagef("-passes takes no FILE, got %s", args[0])
				}
				fmt.Fprint(t.stdout, lowering.PassTable())
				return nil
			}
			path, err := operand(fs, args) // flags may follow the operand
			if err != nil {
				return err
			}
			if *after != "" && (*asJSON || *brief) || *asJSON && *brief {
				return usagef("give one of -brief, -json and -after")
			}
			if *choices && (*after != "" || *brief) {
				return usagef("give one of -brief, -after and -choices")
			}
			if *wrt != "" && !*choices {
				return usagef("-wrt is for -choices; gomoe grad makes the program of a gradient")
			}
			p, err := t.program(ctx, path)
			if err != nil {
				return err
			}
			cfg, err := place.config(path, p)
			if err != nil {
				return err
			}
			if *choices {
				return t.choices(ctx, path, p, cfg, list(*wrt), *asJSON)
			}
			cfg.After = *after
			plan, err := gomoe.Compile(ctx, p, cfg)
			if err != nil {
				return in(path, err)
			}
			if *after != "" {
				fmt.Fprint(t.stdout, plan)
				return nil
			}
			report := plan.Report(runtime.GOMAXPROCS(0))
			if *asJSON {
				return printJSON(t.stdout, report)
			}
			if !*brief {
				fmt.Fprintf(t.stdout, "%v\n", plan)
			}
			fmt.Fprint(t.stdout, report)
			return nil
		},
	}
}

// choices prints the memory and communication of a rank for each way of running the expert layers
// of p.
func (t *tool) choices(ctx context.Context, path string, p *graph.Program, cfg gomoe.Config, wrt []string, asJSON bool) error {
	if err := wanted(p, wrt); err != nil {
		return in(path, err)
	}
	if len(wrt) > 0 {
		if err := loss(p); err != nil {
			return in(path, err)
		}
	}
	all, err := gomoe.Choices(ctx, p, cfg, wrt...)
	if err != nil {
		return in(path, err)
	}
	if asJSON {
		return printJSON(t.stdout, all)
	}
	return gomoe.WriteChoices(t.stdout, all)
}
