//go:build darwin || native

package device

import (
	"context"

	"github.com/gomoe/gomoe/metal"
)

// Open opens a device of Metal by name.
func Open(ctx context.Context, name string) (Device, error) {
	var d *metal.Device
	var err error
	switch name {
	case Emulated, Counting, CountingTensors:
		d, err = metal.Emulated(ctx, metal.Emulation{Count: name != Emulated, Tensors: name == CountingTensors})
	default:
		d, err = metal.Open(ctx)
	}
	if err != nil {
		return nil, err // not d: a nil *metal.Device would be a Device that is not nil
	}
	return d, nil
}
