package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/internal/quoted"
)

func (t *tool) helpCommand(root *ffcli.Command) *ffcli.Command {
	return &ffcli.Command{
		Name: "help", ShortUsage: "gomoe help [COMMAND]", ShortHelp: "Describe a command.",
		FlagSet: t.flags("help"),
		Exec: func(_ context.Context, args []string) error {
			if len(args) > 1 {
				return usagef("%d commands, want one", len(args))
			}
			if len(args) == 0 {
				fmt.Fprint(t.stdout, ffcli.DefaultUsageFunc(root))
				return nil
			}
			for _, c := range root.Subcommands {
				if strings.EqualFold(c.Name, args[0]) {
					fmt.Fprint(t.stdout, ffcli.DefaultUsageFunc(c))
					return nil
				}
			}
			return usagef("there is no command %s; gomoe help lists them", quoted.Text(args[0]))
		},
	}
}
