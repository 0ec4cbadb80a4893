package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/world"
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
	Micro    int     // into how many parts a step cuts them
	Capacity float64 // capacity factor; 0 drops nothing
	DType    dtype   // of activations and of the weights that they are multiplied with

	Balance float64 // coefficient of the load-balancing loss
	ZLoss   float64 // coefficient of the router's z-loss
	Clip    float64 // largest global norm of the gradient
	Decay   float64 // weight decay of matrices

	Overlap lowering.Overlap // what is computed during collectives
	Sums    sumType          // in which ranks add up gradients
	Exact   bool             // the same bits on every mesh of dp and ep
	Remat   string           // what the gradient computes again: one of the constants below
	Zero    string           // what is split over the ranks that split the batch: one of the constants below

	world *world.World // the job that the mesh's ranks belong to; nil means this process alone
}

// What the gradient computes again, as the flag -remat names it.
const (
	rematOff      = "off"      // nothing
	rematProducts = "products" // all of a layer but matrix products and exchanges between ranks
	rematAll      = "all"      // all of a layer
)

// What is split over the ranks that have the same experts, as the flag -zero names it. Results
// are the same.
const (
	zeroOff     = "off"     // nothing
	zeroMoments = "moments" // the moments of the weights
	zeroWeights = "weights" // the weights, too, which are gathered where they are used
)

// dtype is the element type that the model computes in, as a flag: f32 or bf16.
// Weights and moments are f32 in any case.
type dtype struct{ graph.DType }

func (d *dtype) String() string { return d.DType.String() }

func (d *dtype) Set(s string) error {
	for _, t := range []graph.DType{graph.F32, graph.BF16} {
		if s == t.String() {
			d.DType = t
			return nil
		}
	}
	return fmt.Errorf("want %s or %s", graph.F32, graph.BF16)
}

// sumType is the element type in which ranks add up gradients, as a flag: f32, bf16 or f16.
type sumType struct{ graph.DType }

func (d *sumType) String() string {
	if d.DType == graph.NoDType {
		return graph.F32.String()
	}
	return d.DType.String()
}

func (d *sumType) Set(s string) error {
	for _, t := range []graph.DType{graph.BF16, graph.F16} {
		if s == t.String() {
			d.DType = t
			return nil
		}
	}
	if d.DType = graph.NoDType; s != graph.F32.String() {
		return fmt.Errorf("want %s, %s or %s", graph.F32, graph.BF16, graph.F16)
	}
	return nil
}

// validate returns an error for sizes that no mesh can run. It names their
// flags.
func (c config) validate() error {
	for _, size := range []struct {
		flag string
		n    int
	}{
		{"width", c.Width}, {"layers", c.Layers}, {"heads", c.Heads}, {"ffn", c.FFN},
		{"experts", c.Experts}, {"top-k", c.TopK}, {"seq", c.Seq}, {"batch", c.Batch}, {"microbatches", c.Micro},
	} {
		if size.n < 1 {
			return fmt.Errorf("-%s %d: want at least 1", size.flag, size.n)
		}
	}
	for _, factor := range []struct {
		flag string
		x    float64
	}{{"capacity", c.Capacity}, {"balance", c.Balance}, {"z-loss", c.ZLoss}, {"clip", c.Clip}, {"decay", c.Decay}} {
		if !(factor.x >= 0 && factor.x <= math.MaxFloat32) {
			return fmt.Errorf("-%s %g: want a finite number of at least 0", factor.flag, factor.x)
		}
	}
	switch {
	case !slices.Contains([]string{"", rematOff, rematProducts, rematAll}, c.Remat):
		return fmt.Errorf("-remat %s: want %s, %s or %s", c.Remat, rematOff, rematProducts, rematAll)
	case !slices.Contains([]string{"", zeroOff, zeroMoments, zeroWeights}, c.Zero):
		return fmt.Errorf("-zero %s: want %s, %s or %s", c.Zero, zeroOff, zeroMoments, zeroWeights)
	case c.Width%c.Heads != 0 || c.Width/c.Heads%2 != 0:
		return fmt.Errorf("-width %d over -heads %d: want an even number of columns per head, such as -width %d", c.Width, c.Heads, multiple(c.Width, 2*c.Heads))
	case c.TopK > c.Experts:
		return fmt.Errorf("-top-k %d of -experts %d: want at most as many", c.TopK, c.Experts)
	case c.Clip == 0:
		return fmt.Errorf("-clip 0: no weight would move; want a norm above 0, such as 1e9 to clip nothing")
	}
	return nil
}

// fits returns an error for sizes that do not divide over the mesh. It names
// their flags.
func (c config) fits(m sharding.Mesh) error {
	batch := 1
	for _, a := range m.Axes {
		switch a.Name {
		case "dp", "ep":
			batch *= a.Size
		case "tp":
		default:
			return fmt.Errorf("-mesh %s: axis %s, want dp (splits the batch), ep (the batch and the experts) or tp (heads and expert columns)", m, a.Name)
		}
	}
	if c.Exact {
		batch = 1 // Compile says what the blocks want, on every mesh the same
	}
	tp := max(1, m.Size("tp"))
	for _, split := range []struct {
		flag    string
		n, over int
		axes    string
	}{
		{"batch", c.Batch, batch * c.Micro, "dp and ep"},
		{"heads", c.Heads, tp, "tp"},
		{"ffn", c.FFN, tp, "tp"},
	} {
		if split.n%split.over != 0 {
			where := fmt.Sprintf("over the %d ranks of %s in -mesh %s", split.over, split.axes, m)
			if split.flag == "batch" && c.Micro > 1 {
				where = fmt.Sprintf("over the %d ranks of %s in -mesh %s in -microbatches %d", batch, split.axes, m, c.Micro)
			}
			return fmt.Errorf("-%s %d does not divide %s: want a multiple of %d, such as -%s %d",
				split.flag, split.n, where, split.over, split.flag, multiple(split.n, split.over))
		}
	}
	return nil
}

// multiple returns the least multiple of k that is not less than n.
func multiple(n, k int) int { return (n + k - 1) / k * k }

// layer is the expert-parallel part of layer l.
func (c config) layer(l, tokens int) primitives.PrepareOp {
	ep := primitives.PrepareOp{Experts: c.Experts, Label: fmt.Sprintf("moe%d", l)}
	if c.Capacity > 0 {
		ep.Capacity = ep.CapacityFor(tokens, c.TopK, c.Capacity)
	}
	return ep
}
