package main

import (
	"fmt"

	"github.com/gomoe/gomoe/primitives"
)

// config is the size of the model and of a batch.
type config struct {
	Vocab    int
	Width    int // D
	Layers   int
	Heads    int     // N, of Width/Heads columns each
	FFN      int     // F, the width of one expert
	Experts  int     // E
	TopK     int     // K
	Seq      int     // S, bytes per sequence
	Batch    int     // B, sequences per step over all ranks
	Capacity float64 // capacity factor; 0 drops nothing

	Balance float64 // coefficient of the load-balancing loss
	ZLoss   float64 // coefficient of the router's z-loss
	Clip    float64 // largest global norm of the gradient
	Decay   float64 // weight decay of matrices
}

func (c config) validate() error {
	for name, n := range map[string]int{"width": c.Width, "layers": c.Layers, "heads": c.Heads, "ffn": c.FFN, "experts": c.Experts, "top-k": c.TopK, "seq": c.Seq, "batch": c.Batch} {
		if n < 1 {
			return fmt.Errorf("-%s is %d, want at least 1", name, n)
		}
	}
	switch {
	case c.Width%c.Heads != 0 || c.Width/c.Heads%2 != 0:
		return fmt.Errorf("-width %d over -heads %d: want an even number of columns per head", c.Width, c.Heads)
	case c.TopK > c.Experts:
		return fmt.Errorf("-top-k %d of -experts %d: want at most as many", c.TopK, c.Experts)
	case c.Capacity < 0:
		return fmt.Errorf("-capacity %g, want 0 for no limit or a factor of an even share", c.Capacity)
	}
	return nil
}

// layer is the expert-parallel part of layer l.
func (c config) layer(l, tokens int) primitives.Layer {
	ep := primitives.Layer{Experts: c.Experts, Name: fmt.Sprintf("moe%d", l)}
	if c.Capacity > 0 {
		ep.Capacity = ep.CapacityFor(tokens, c.TopK, c.Capacity)
	}
	return ep
}
