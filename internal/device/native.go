//go:build darwin || native

package device

import (
	"context"

	"github.com/gomoe/gomoe/metal"
)

// Open opens one of Metal's.
func Open(ctx context.Context, name string) (Device, error) {
	var d *metal.Device
	var err error
	if name == Emulated {
		d, err = metal.Emulated(ctx, metal.Emulation{})
	} else {
		d, err = metal.Open()
	}
	if err != nil {
		return nil, err // and no Device that is not nil
	}
	return d, nil
}
