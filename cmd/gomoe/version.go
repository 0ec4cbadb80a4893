package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/internal/kernel"
)

func (t *tool) versionCommand() *ffcli.Command {
	return &ffcli.Command{
		Name: "version", ShortUsage: "gomoe version", ShortHelp: "Print the version of gomoe and of Go, and the kernels in use.",
		FlagSet: t.flags("version"),
		Exec: func(_ context.Context, args []string) error {
			if len(args) > 0 {
				return usagef("arguments %q, want none", args)
			}
			version, revision := "(devel)", ""
			if b, ok := debug.ReadBuildInfo(); ok {
				if b.Main.Version != "" {
					version = b.Main.Version
				}
				for _, s := range b.Settings {
					if s.Key == "vcs.revision" {
						revision = " " + s.Value
					}
				}
			}
			kernels, err := kernel.Selected()
			fmt.Fprintf(t.stdout, "gomoe %s%s %s %s/%s, %s kernels\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH, kernels)
			return err
		},
	}
}
