//go:build darwin || native

package gomoe

import (
	"context"

	"github.com/gomoe/gomoe/metal"
)

// openDevice opens one of Metal's.
func openDevice(ctx context.Context, name string) (Device, error) {
	var d *metal.Device
	var err error
	if name == emulatedName {
		d, err = metal.Emulated(ctx, metal.Emulation{})
	} else {
		d, err = metal.Open()
	}
	if err != nil {
		return nil, err // and no Device that is not nil
	}
	return d, nil
}
