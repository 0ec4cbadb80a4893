package main

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/jaccl/job/environ"
)

// deviceVariables returns the environment variables read by the emulated GPU.
func deviceVariables() []environ.Variable {
	return []environ.Variable{
		{Name: "GOMOE_CLANG", Meaning: "what compiles the emulated GPU's kernels; if not set, the first clang that is found of version 17 or newer"},
		{Name: "GOMOE_CACHE", Meaning: "folder for what it has compiled; if not set, gomoe in the user's cache directory"},
	}
}

// printDevices prints the devices that -device finds on this machine.
func (t *tool) printDevices(ctx context.Context) error {
	gpu := "there, and says no name"
	d, err := gomoe.OpenDevice(ctx, "metal")
	if err != nil {
		gpu = "none: " + err.Error()
	} else {
		if named, ok := d.(interface{ GPU() string }); ok {
			gpu = named.GPU()
		}
		if t, ok := d.(interface{ Tensors() string }); ok {
			if why := t.Tensors(); why != "" {
				gpu += "; no tensor operations: " + why
			} else {
				gpu += "; with tensor operations"
			}
		}
		if err := d.Close(); err != nil {
			return err
		}
	}
	clang, err := compiler(ctx)
	if err != nil {
		clang = "none: " + err.Error()
	}
	_, err = fmt.Fprintf(t.stdout, "device metal           %s\ndevice metal-emulated  %s\n", gpu, clang)
	return err
}
