package metal

import (
	"context"

	"github.com/gomoe/gomoe/metal/internal/standin"
)

// EmulatedWith returns an emulated GPU with options that Emulation does not have.
func EmulatedWith(ctx context.Context, o standin.Options) (*Device, error) { return emulated(ctx, o) }

// Live returns how many objects of Metal there are on an emulated GPU, by class.
func (d *Device) Live() map[string]int { return d.emulation.Report().Live() }

// FailCommandBuffer has one command buffer of an emulated GPU fail, after others.
func (d *Device) FailCommandBuffer(after int, text string) {
	d.emulation.FailCommandBuffer(after, "MTLCommandBufferErrorDomain", 2, text)
}
