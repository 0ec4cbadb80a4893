package main

import (
	"flag"
	"fmt"
	"math"

	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train/lm"
)

// model is the size of the model.
type model struct {
	Width    int // D
	Layers   int
	Heads    int     // N, of Width/Heads columns each
	FFN      int     // F, the width of one expert
	Experts  int     // E
	TopK     int     // K
	Capacity float64 // of an expert, as a factor of an even share; 0 drops nothing
}

// Flags declares the flags setting the sizes.
func (m *model) Flags(f *flag.FlagSet) []string {
	f.IntVar(&m.Width, "width", 128, "`columns` of the model")
	f.IntVar(&m.Layers, "layers", 4, "layers")
	f.IntVar(&m.Heads, "heads", 4, "attention heads")
	f.IntVar(&m.FFN, "ffn", 256, "`columns` of an expert")
	f.IntVar(&m.Experts, "experts", 8, "experts per layer")
	f.IntVar(&m.TopK, "top-k", 2, "experts per token")
	f.Float64Var(&m.Capacity, "capacity", 0, "capacity of an expert as a `factor` of an even share; 0 drops nothing")
	return []string{"width", "layers", "heads", "ffn", "experts", "top-k"}
}

// Validate returns an error naming the flags of sizes that are invalid or do not divide over the mesh.
func (m *model) Validate(mesh sharding.Mesh) error {
	for _, size := range []struct {
		flag string
		n    int
	}{{"width", m.Width}, {"layers", m.Layers}, {"heads", m.Heads}, {"ffn", m.FFN}, {"experts", m.Experts}, {"top-k", m.TopK}} {
		if size.n < 1 {
			return fmt.Errorf("-%s %d: want at least 1", size.flag, size.n)
		}
	}
	switch even := 2 * m.Heads; {
	case !(m.Capacity >= 0 && m.Capacity <= math.MaxFloat32):
		return fmt.Errorf("-capacity %g: want a finite number of at least 0", m.Capacity)
	case m.Width%even != 0:
		return fmt.Errorf("-width %d over -heads %d: want an even number of columns per head, such as -width %d", m.Width, m.Heads, lm.Multiple(m.Width, even))
	case m.TopK > m.Experts:
		return fmt.Errorf("-top-k %d of -experts %d: want at most as many", m.TopK, m.Experts)
	}
	tp := max(1, mesh.Size("tp"))
	where := fmt.Sprintf("the %d ranks of tp in -mesh %s", tp, mesh)
	if err := lm.Over("heads", m.Heads, tp, where); err != nil {
		return err
	}
	return lm.Over("ffn", m.FFN, tp, where)
}

// Size returns the model's size.
func (m *model) Size() lm.Size {
	d, layers, e := float64(m.Width), float64(m.Layers), float64(m.Experts)
	weights := 2*lm.Vocab*d + d + layers*(4*d*d+2*d+d*e+3*e*d*float64(m.FFN))
	return lm.Size{Layers: m.Layers, Experts: m.Experts, TopK: m.TopK, Weights: weights, Width: d}
}
