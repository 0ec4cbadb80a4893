package main

import (
	"context"
	"fmt"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe"
)

func (t *tool) placeCommand() *ffcli.Command {
	fs := t.flags("place")
	place := newPlacing(fs, false)
	return &ffcli.Command{
		Name: "place", ShortUsage: "gomoe place FILE -mesh ep=4 -place x=ep ...",
		ShortHelp: "Print the program with the placement of every value.", FlagSet: fs,
		LongHelp: "f32[16@ep,8] is split over the mesh axis ep, f32[8]{+dp} is a sum that is still to be\nadded over dp, and f32[64@ep~,8] has ragged rows. Custom derivatives are inlined.\nEquations that change nothing, or compute what is there already, are left out; -as-written shows them.",
		Exec: func(ctx context.Context, args []string) error {
			path, err := operand(fs, args)
			if err != nil {
				return err
			}
			p, err := t.program(ctx, path)
			if err != nil {
				return err
			}
			cfg, err := place.config(path, p)
			if err != nil {
				return err
			}
			a, err := gomoe.Place(ctx, p, cfg)
			if err != nil {
				return in(path, err)
			}
			fmt.Fprint(t.stdout, a.Format())
			return nil
		},
	}
}
