package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/primitives"
)

func (t *tool) kernelsCommand() *ffcli.Command {
	fs := t.flags("kernels")
	asJSON := fs.Bool("json", false, "print them as JSON")
	return &ffcli.Command{
		Name: "kernels", ShortUsage: "gomoe kernels [NAME] [-json]", FlagSet: fs,
		ShortHelp: "List the kernels for Apple's GPUs.",
		LongHelp: "A line per kernel: the largest threadgroup that its functions are launched with, the threadgroup\n" +
			"memory that they take at most, and the primitives that it serves. With a NAME, its functions, and how far\n" +
			"results may be from the host kernel's, and why. What no kernel serves, the host does: gomoe plan\n-device metal shows it for a program, with the reason.",
		Exec: func(_ context.Context, args []string) error {
			names, err := operands(fs, args)
			if err != nil {
				return err
			}
			all := kernels.All()
			switch {
			case len(names) > 1:
				return usagef("%d names %s, want one", len(names), quoted.List(names))
			case len(names) == 1:
				i := slices.IndexFunc(all, func(k kernels.Kernel) bool { return k.Name == names[0] })
				if i < 0 {
					return usagef("there is no kernel %s; gomoe kernels lists them", quoted.Text(names[0]))
				}
				if *asJSON {
					return printJSON(t.stdout, kernelOf(all[i]))
				}
				return printKernel(t.stdout, all[i])
			case *asJSON:
				var out []metalKernel
				for _, k := range all {
					out = append(out, kernelOf(k))
				}
				return printJSON(t.stdout, out)
			}
			return printKernels(t.stdout, all)
		},
	}
}

// metalKernel is a kernel as JSON.
type metalKernel struct {
	Name         string           `json:"name"`
	Doc          string           `json:"doc"`
	Instructions []string         `json:"instructions"`
	Primitives   []string         `json:"primitives"`
	Functions    []kernelFunction `json:"functions"`
	Tolerance    kernelTolerance  `json:"tolerance"`
}

// kernelTolerance is a kernels.Tolerance: the accepted difference between an element and the
// host's.
type kernelTolerance struct {
	Absolute float64 `json:"absolute"`
	Relative float64 `json:"relative"`
	OfMax    float64 `json:"of_largest"`
	Why      string  `json:"why"`
}

type kernelFunction struct {
	Name    string `json:"name"`
	Threads int    `json:"threads"`
	Memory  int    `json:"threadgroup_bytes"`
}

func kernelOf(k kernels.Kernel) metalKernel {
	out := metalKernel{k.Name, k.Doc, nil, k.Primitives, nil, kernelTolerance(k.Tolerance)}
	for _, op := range k.Serves {
		out.Instructions = append(out.Instructions, op.String())
	}
	for _, f := range k.Functions {
		out.Functions = append(out.Functions, kernelFunction(f))
	}
	return out
}

// printKernels prints one line per kernel, or more for a kernel serving many primitives, followed
// by the primitives without a kernel.
func printKernels(w io.Writer, all []kernels.Kernel) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "kernel\tthreads\tmemory\tprimitives")
	served := map[string]bool{}
	for _, k := range all {
		threads, memory := 0, 0
		for _, f := range k.Functions {
			threads, memory = max(threads, f.Threads), max(memory, f.Memory)
		}
		for _, p := range k.Primitives {
			served[p] = true
		}
		lines := wrap(k.Primitives, 80)
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", k.Name, orDash("%d", threads), orDash("%d B", memory), lines[0])
		for _, l := range lines[1:] {
			fmt.Fprintf(tw, "\t\t\t%s\n", l)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	var host []string
	for _, p := range primitives.All() {
		if !served[p.Name()] && !slices.Contains(nothing(), p.Name()) {
			host = append(host, p.Name())
		}
	}
	slices.Sort(host)
	_, err := fmt.Fprintf(w, "\nFunctions of flat are made for each chain of instructions.\nOnly the host does %s.\nNothing is computed for %s.\n", strings.Join(slices.Compact(host), ", "), strings.Join(nothing(), ", "))
	return err
}

// nothing returns the primitives that need no kernel: their result is their argument, unchanged or
// after an exchange among ranks.
func nothing() []string { return []string{"reshape", "sharding_constraint", "stop_gradient"} }

// wrap breaks words into lines of at most width characters; only a longer word exceeds width.
func wrap(words []string, width int) []string {
	lines := []string{""}
	for _, word := range words {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) > width:
			lines = append(lines, word)
		default:
			*last += " " + word
		}
	}
	return lines
}

// orDash formats a number, printing 0 as a dash.
func orDash(format string, n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf(format, n)
}

// printKernel prints all properties of one kernel.
func printKernel(w io.Writer, k kernels.Kernel) error {
	fmt.Fprintf(w, "%s: %s.\n\nserves      %s\nprimitives  %s\ntolerance   %s\n\n", k.Name, k.Doc,
		strings.Join(kernelOf(k).Instructions, " "), strings.Join(k.Primitives, " "), toleranceText(k.Tolerance))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "function\tthreads\tmemory")
	for _, f := range k.Functions {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", f.Name, orDash("%d", f.Threads), orDash("%d B", f.Memory))
	}
	return tw.Flush()
}

func toleranceText(t kernels.Tolerance) string {
	var parts []string
	add := func(x float64, of string) {
		if x != 0 {
			parts = append(parts, fmt.Sprintf("%g%s", x, of))
		}
	}
	add(t.Absolute, "")
	add(t.Relative, " of the element")
	add(t.OfMax, " of the largest element")
	text := strings.Join(parts, " + ")
	if text == "" {
		text = "none, the host's bits"
	}
	if t.Why != "" {
		text += ": " + t.Why
	}
	return text
}
