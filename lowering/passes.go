package lowering

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Pass is one step from a program to its plan. The first pass makes a plan of the placed
// program, the others rewrite the plan.
type Pass struct {
	Name string
	Does string
	// asked reports whether the options enable the pass.
	asked func(o *Options) bool
	run   func(ctx context.Context, p *Plan, o *Options) error
	Needs []Need
}

// Need names a pass that must precede another pass, with the reason.
type Need struct{ Pass, Why string }

// Emit is the name of the first pass, which runs the rules of primitives to emit
// instructions.
const Emit = "emit"

// Passes returns all passes in execution order.
func Passes() []Pass {
	joins := func(o *Options) bool { return len(o.Joins) > 0 }
	keeps := func(o *Options) bool { return o.Keep }
	fuses := func(o *Options) bool { return o.Fuse }
	overlaps := func(o *Options) bool { return o.Overlap == OverlapCollectives }
	targets := func(o *Options) bool { return o.Target != nil }
	always := func(*Options) bool { return true }
	return []Pass{
		{Name: Emit, Does: "the rules of primitives emit kernels and collectives, each result to a buffer of its own", asked: always},
		{"join", "several instructions become one that writes the same bits, by rules of the primitives", joins,
			func(_ context.Context, p *Plan, o *Options) error { p.join(o.Joins); return nil },
			[]Need{{Emit, "there is a plan"}}},
		{"keep", "copies of weights that stay the same are buffers, and instructions that make them", keeps,
			func(_ context.Context, p *Plan, o *Options) error { p.keep(o.Donate); return nil },
			[]Need{{"join", "a joined instruction wants other copies than those that it stands for"}}},
		{"fuse", "elementwise instructions run one after another on chunks of their arrays", fuses,
			func(_ context.Context, p *Plan, o *Options) error { p.fuse(o.Chunk, o.Target); return nil },
			[]Need{{"join", "rules look for instructions, which are not seen inside a chain"}}},
		{"bundle", "several all_sums, reduce_scatters or all_gathers over the same axes become one", fuses,
			func(_ context.Context, p *Plan, _ *Options) error { p.bundle(); return nil },
			[]Need{{"fuse", "a copy into a joined sum is not fused with what makes it: its memory is elsewhere"}}},
		{"delay", "what an exchange of rows does not need comes behind its start", overlaps,
			func(_ context.Context, p *Plan, _ *Options) error { p.delay(); return nil },
			[]Need{{"join", "the instructions of a join stand together"}, {"fuse", "a chain moves as a whole; what has moved would be fused with what it moved away from"}}},
		{"hoist", "collectives go up to what makes their arguments", overlaps,
			func(_ context.Context, p *Plan, _ *Options) error { p.hoist(); return nil },
			[]Need{{"delay", "what is computed beside an exchange decides what else goes there"}}},
		{"sum", "an all_sum writes over what it sums, if nobody else reads that", overlaps,
			func(_ context.Context, p *Plan, _ *Options) error { p.sumInPlace(); return nil },
			[]Need{{"hoist", "hoist and delay go by who writes a buffer, and a sum in place writes one a second time"}}},
		{"adjoin", "joined sums write over what they sum, which lies one behind another", fuses,
			func(_ context.Context, p *Plan, _ *Options) error { p.adjoin(); return nil },
			[]Need{{"bundle", "there are joined sums"}, {"hoist", "hoist and delay go by who writes a buffer"}}},
		{"wait", "each collective is waited for before the first kernel that touches what it is at work on", overlaps,
			func(_ context.Context, p *Plan, _ *Options) error { p.waits(); return nil },
			[]Need{{"keep", "a wait is the number of an instruction: none is put in afterwards"}, {"fuse", "nor is one taken out"}, {"hoist", "nor moved"},
				{"sum", "a sum in place is at work on its argument's memory too"}}},
		{"donate", "results take the memory of donated inputs", always,
			func(_ context.Context, p *Plan, o *Options) error { return p.donate(o.Donate) },
			[]Need{{"fuse", "whether a result may be written over an input depends on the chain that does it"}, {"wait", "an exchange reads its input until it is waited for"}}},
		{"memory", "temporaries get places in the arena; with fuse, results of elementwise instructions that of arguments", always,
			func(ctx context.Context, p *Plan, o *Options) error {
				p.rooms()
				if o.Fuse {
					return p.reuse(ctx, o.Target == nil) // a device works on all rows at once
				}
				return p.assignMemory(ctx)
			},
			[]Need{{"fuse", "what only links of a chain read has no memory"}, {"wait", "an exchange needs its memory until it is waited for"},
				{"donate", "a result in the memory of an input needs none, and may be made of temporaries that lie there"}}},
		{"target", "a device says which instructions it runs, and why it leaves others to the host", targets,
			func(_ context.Context, p *Plan, o *Options) error { p.target(o.Target); return nil },
			[]Need{{"fuse", "it is asked for chains as wholes"}, {"memory", "what it says may depend on where buffers lie"}}},
	}
}

// run runs the passes enabled by the options, up to Options.After, on the plan emitted by
// the rules of primitives. It checks the plan after the last of them, or with
// Options.Check after each.
func (p *Plan) run(ctx context.Context, o *Options) error {
	all := Passes()
	if o.After != "" && !slices.ContainsFunc(all, func(x Pass) bool { return x.Name == o.After }) {
		var names []string
		for _, x := range all {
			names = append(names, x.Name)
		}
		return fmt.Errorf("lowering: no pass %q, want one of %s", o.After, strings.Join(names, ", "))
	}
	for i, x := range all {
		last := x.Name == o.After || i == len(all)-1
		if x.Name == o.After && !x.asked(o) {
			return fmt.Errorf("lowering: pass %s does not run with these options, so there is no plan after it", x.Name)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if x.run != nil && x.asked(o) {
			if err := p.runOn(ctx, x, o); err != nil {
				return err
			}
		}
		if o.Check || last {
			err := p.Check()
			switch {
			case err != nil && o.Check:
				return fmt.Errorf("after pass %s: %w", x.Name, err)
			case err != nil: // any of the passes may have made the mistake
				return fmt.Errorf("a pass or the rule of a primitive has made a plan that ranks cannot run, and Options.Check says which: %w", err)
			}
		}
		if last {
			break
		}
	}
	return nil
}

// runOn runs a pass on the bodies of the plan's loops, and then on the plan.
func (p *Plan) runOn(ctx context.Context, x Pass, o *Options) error {
	for _, l := range p.loops() {
		if body := l.options(o); x.asked(body) {
			if err := l.Body.runOn(ctx, x, body); err != nil {
				return err
			}
		}
	}
	p.number() // a pass may have changed the number of collectives in a body
	return x.run(ctx, p, o)
}

// PassTable returns a readable table of Passes: the effect of each pass, and the passes
// that must precede it.
func PassTable() string {
	var b strings.Builder
	for _, x := range Passes() {
		fmt.Fprintf(&b, "%-7s %s\n", x.Name, x.Does)
		for _, n := range x.Needs {
			fmt.Fprintf(&b, "        after %s: %s\n", n.Pass, n.Why)
		}
	}
	return b.String()
}
