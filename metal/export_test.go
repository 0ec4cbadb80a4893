package metal

import (
	"context"

	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/internal/standin"
)

// EmulatedWith returns an emulated GPU with options that Emulation does not have.
func EmulatedWith(ctx context.Context, o standin.Options) (*Device, error) { return emulated(ctx, o) }

// Live returns how many objects of Metal there are on an emulated GPU, by class.
func (d *Device) Live() map[string]int { return d.emulation.Report().Live() }

// Probe tries the tensor operations.
func (d *Device) Probe(ctx context.Context) error { return d.probe(ctx) }

// Functions returns the functions that rank 0's GPU launches for a plan.
func (d *Device) Functions(p *lowering.Plan) (names []string, err error) {
	for i := range p.Instrs {
		if !p.Instrs[i].On {
			continue
		}
		b, err := d.build(p, i, 0)
		if err != nil {
			return nil, err
		}
		for _, l := range b.Launches {
			names = append(names, l.Function)
		}
	}
	return names, nil
}

// FailCommandBuffer has one command buffer of an emulated GPU fail, after others.
func (d *Device) FailCommandBuffer(after int, text string) {
	d.emulation.FailCommandBuffer(after, "MTLCommandBufferErrorDomain", 2, text)
}
