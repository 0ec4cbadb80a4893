package lm

import (
	"flag"
	"fmt"

	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/sharding"
)

// Size is about how large a model is. It is computed in float64, which no flag overflows.
type Size struct {
	Layers, Experts, TopK int
	Weights               float64
	Width                 float64 // columns of what goes from layer to layer
}

// planBytes is about what the program and the plan of a step take for each layer, however small it is: 36 layers of the
// smallest size left 290 KB for each after a collection.
const planBytes = 290e3

// needs returns about how many bytes a training step takes at least on a rank of a mesh: its share of weights and two
// moments, which stay; of what every layer keeps for the backward pass at least six arrays of the tokens; and the logits.
func (o *Options) needs(s Size, m sharding.Mesh) float64 {
	split := 1.0 // ranks that share the tokens
	for _, a := range m.Axes {
		if a.Name != "tp" {
			split *= float64(a.Size)
		}
	}
	tokens := float64(o.Rows) / float64(o.Microbatches) * float64(o.Length) / split
	return 4*(3*s.Weights/float64(m.Ranks())+tokens*(6*float64(s.Layers)*s.Width+Vocab)) + planBytes*float64(s.Layers)
}

// room returns an error if the model needs more memory than this process, which has that many ranks of the mesh, can take.
// It comes before anything is traced, and names the flag without which the model would need least.
func (c Command) room(o *Options, m sharding.Mesh, ranks int, can memory.Limit) error {
	all := func() float64 { return float64(ranks) * o.needs(c.Model.Size(), m) }
	need := all()
	if need <= float64(can.Bytes) {
		return nil
	}
	best, what := need, "the model"
	o.flagged.Visit(func(f *flag.Flag) {
		given := f.Value.String()
		if given == "" || f.Value.Set(f.DefValue) != nil {
			return // a flag that keeps no value
		}
		if n := all(); n < best {
			best, what = n, fmt.Sprintf("-%s %s: the model", f.Name, given)
		}
		f.Value.Set(given)
	})
	return fmt.Errorf("%s needs at least %s of memory for the %d ranks in this process, and %s can be had (%s); want less, or more processes", what, memory.Format(need), ranks, memory.Format(float64(can.Bytes)), can.By)
}
