package gomoe

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/internal/device"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/runtime"
)

// Device runs the instructions of a plan next to the host; it is given as Options.Device.
// Close it after the jobs using it. Their results stay readable.
type Device interface {
	runtime.Device
	Close() error
}

// OpenDevice opens the device with the given name. The device metal is Apple's GPU. The
// device metal-emulated runs the same kernels under the same driver on the processor: it
// is slow, meant for tests, and needs clang to compile the kernels and, on Linux, a
// program built with -tags native. For "" and host, OpenDevice returns nil. The error
// gives the reason why this machine has no such device, and the remedy. OpenDevice blocks
// while the emulated GPU is being compiled and while a GPU's tensor operations are being
// tried, until ctx ends.
//
// The host runs the instructions for which the device has no kernel; the plan names them,
// with the reason. Results differ from the host's in their last bits.
func OpenDevice(ctx context.Context, name string) (Device, error) {
	if t, err := TargetOf(name); t == nil {
		return nil, err
	}
	return device.Open(ctx, name)
}

// TargetOf returns the compilation target for the device with the given name, nil for the
// host. The device need not exist on this machine.
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
