package lm

import (
	"flag"
	"fmt"

	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/sharding"
)

// Size is the approximate size of a model. Weights are counted in float64, so that no flag overflows them.
type Size struct {
	Layers, Experts, TopK int
	Weights               float64
	Width                 float64 // width of the activations between layers
}

// planBytes is the approximate memory of a step's program and plan per layer, regardless of size: 36 layers of the
// smallest size used 290 KB each after a garbage collection.
const planBytes = 290e3

// needs estimates a lower bound of a training step's memory in bytes on a rank of a mesh: its share of the weights
// and two moments; at least six arrays of the tokens saved per layer for the backward pass; and the logits.
func (o *Options) needs(s Size, m sharding.Mesh) float64 {
	split := 1.0 // ranks sharing the tokens
	for _, a := range m.Axes {
		if a.Name != "tp" {
			split *= float64(a.Size)
		}
	}
	tokens := float64(o.Rows) / float64(o.Microbatches) * float64(o.Length) / split
	return 4*(3*s.Weights/float64(m.Ranks())+tokens*(6*float64(s.Layers)*s.Width+Vocab)) + planBytes*float64(s.Layers)
}

// room returns an error if the model needs more memory than this process can use for its ranks of the mesh. It runs
// before tracing, and names the flag whose default value would reduce memory the most.
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
			return // a flag without a value
		}
		if n := all(); n < best {
			best, what = n, fmt.Sprintf("-%s %s: the model", f.Name, given)
		}
		f.Value.Set(given)
	})
	return fmt.Errorf("%s needs at least %s of memory for the %d ranks in this process, and %s can be had (%s); want less, or more processes", what, memory.Format(need), ranks, memory.Format(can.Bytes), can.By)
}
