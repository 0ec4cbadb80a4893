package gomoe

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/internal/device"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/runtime"
)

// Device runs a plan's instructions beside the host, as Options.Device. Close comes after
// the jobs that use it; results of these stay readable.
type Device interface {
	runtime.Device
	Close() error
}

// OpenDevice returns the device of that name: metal is Apple's GPU, and metal-emulated
// runs the same kernels under the same driver on the processor, which is for tests: it is
// slow, needs clang to compile the kernels, and on Linux a program that is built with
// -tags native. host, and no name, are none: nil. The error says why there is no such
// device here, and what to do. It blocks while the emulated GPU is compiled and while
// a GPU's tensor operations are tried, until ctx ends.
//
// The host runs the instructions that the device has no kernel for: the plan says which,
// and why. Results are not the bits of the host's.
func OpenDevice(ctx context.Context, name string) (Device, error) {
	if t, err := TargetOf(name); t == nil {
		return nil, err
	}
	return device.Open(ctx, name)
}

// TargetOf returns what plans for the device of that name are made for, nil for the host.
// It needs no such device.
func TargetOf(name string) (lowering.Target, error) {
	switch name {
	case "", hostName:
		return nil, nil
	case metalName, device.Emulated:
		return kernels.Metal{}, nil
	}
	return nil, fmt.Errorf("device %q, want host, metal or metal-emulated", name)
}

// The names of devices.
const (
	hostName  = "host"
	metalName = "metal"
)
