package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/internal/quoted"
)

func (t *tool) versionCommand() *ffcli.Command {
	fs := t.flags("version")
	list := fs.Bool("kernels", false, "print the names of the kernels that this processor runs instead, the best first")
	return &ffcli.Command{
		Name: "version", ShortUsage: "gomoe version [-kernels]", ShortHelp: "Print the version of gomoe and of Go, and the kernels in use.",
		FlagSet: fs,
		Exec: func(_ context.Context, args []string) error {
			if len(args) > 0 {
				return usagef("arguments %s, want none", quoted.List(args))
			}
			if *list {
				for _, k := range kernel.Available() {
					fmt.Fprintln(t.stdout, k)
				}
				return nil
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
			bf16 := "through f32"
			if engine := gemm.SelectedHalf(); engine != "f32" {
				bf16 = "by " + engine
			}
			fmt.Fprintf(t.stdout, "gomoe %s%s %s %s/%s, %s kernels, bf16 %s\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH, kernels, bf16)
			return err
		},
	}
}
