package kernels

import (
	"slices"

	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
)

// Metal is the target of plans for Apple's GPUs. It needs none to make them.
type Metal struct{}

var (
	_ lowering.Joiner  = Metal{}
	_ lowering.Binder  = Metal{}
	_ lowering.Chainer = Metal{}
)

// Name returns "metal".
func (Metal) Name() string { return "metal" }

// Serves returns why there is no kernel for instruction i, or none on some rank.
func (Metal) Serves(p *lowering.Plan, i int) string {
	var built []*Instr // one for each kernel that ranks have
	for rank := range p.Mesh.Ranks() {
		if slices.ContainsFunc(built, func(in *Instr) bool { return in.fits(rank) }) {
			continue
		}
		in := Of(p, i, rank)
		if _, _, err := Build(in); err != nil {
			return err.Error()
		}
		built = append(built, in)
	}
	return ""
}

// Joins joins products with weights in blocks and what weighs their rows.
func (Metal) Joins() []lowering.Join { return primitives.DeviceJoins() }

// Fusible reports whether a function can be written for an instruction, which depends on
// no rank.
func (Metal) Fusible(p *lowering.Plan, i int) bool {
	_, err := flatProgram(Of(p, i, 0))
	return err == nil
}

// MostBuffers leaves room for a status record and the parameters.
func (Metal) MostBuffers() int { return flatBuffers - 2 }
