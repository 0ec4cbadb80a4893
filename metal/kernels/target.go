package kernels

import (
	"slices"

	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
)

// Metal is the compilation target for Apple's GPUs. Making plans needs no GPU.
type Metal struct{}

var (
	_ lowering.Joiner  = Metal{}
	_ lowering.Binder  = Metal{}
	_ lowering.Chainer = Metal{}
)

// Name returns "metal".
func (Metal) Name() string { return "metal" }

// Serves returns the reason why there is no kernel for instruction i, or none on some rank. It
// returns "" if all ranks have one.
func (Metal) Serves(p *lowering.Plan, i int) string {
	var built []*Instr // one rank's instruction per distinct kernel needed by ranks
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

// Joins returns the fusions of experts' products with adjacent instructions.
func (Metal) Joins() [][]lowering.Join { return primitives.DeviceJoins() }

// Fusible reports whether a function can be written for instruction i. The answer is the
// same for all ranks.
func (Metal) Fusible(p *lowering.Plan, i int) bool {
	_, err := flatProgram(Of(p, i, 0))
	return err == nil
}

// MostBuffers returns the limit of Metal less two, for a status record and the parameters.
func (Metal) MostBuffers() int { return flatBuffers - 2 }
