package main

import (
	"context"
	"fmt"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/vjp"
)

func (t *tool) gradCommand() *ffcli.Command {
	fs := t.flags("grad")
	wrt := fs.String("wrt", "", "`inputs` to differentiate with respect to, such as x,w; none is every input of float type")
	pullback := fs.Bool("pullback", false, "print the program from inputs and the results' cotangents to the inputs' cotangents")
	return &ffcli.Command{
		Name: "grad", ShortUsage: "gomoe grad FILE [-wrt x,w] [-pullback]",
		ShortHelp: "Print the program with the gradient of its first result.", FlagSet: fs,
		LongHelp: "The first result is a scalar of float type, unless -pullback is given. The output\nis a program again: gomoe grad f.graph | gomoe plan - -mesh ep=4 -place x=ep",
		Exec: func(ctx context.Context, args []string) error {
			path, err := operand(fs, args)
			if err != nil {
				return err
			}
			p, err := t.program(ctx, path)
			if err != nil {
				return err
			}
			names := list(*wrt)
			if err := wanted(p, names); err != nil {
				return in(path, err)
			}
			derive := vjp.Pullback
			if !*pullback {
				derive = vjp.Grad
				if err := loss(p); err != nil {
					return in(path, err)
				}
			}
			q, err := derive(p, names...)
			if err != nil {
				return in(path, err)
			}
			fmt.Fprint(t.stdout, q)
			return nil
		},
	}
}

// loss returns an error if the program's first result has no gradient.
func loss(p *graph.Program) error {
	const pull = "say -pullback for the cotangents of the inputs given those of the results"
	if len(p.Out) == 0 {
		return fmt.Errorf("program %s has no result to differentiate", p.Name)
	}
	v := p.Out[0]
	err := fmt.Errorf("program %s: its first result %s is %s, and only a scalar of float type has a gradient; reduce it with reduce_sum, or %s", p.Name, p.Names()[v], v.Type, pull)
	if v.Rank() == 0 && v.Type.DType.IsFloat() {
		return nil
	}
	if v.Def != nil {
		return &graph.Error{Pos: v.Def.Pos, Err: err}
	}
	return err
}
