package main

import (
	"fmt"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
)

// planBytes is about what the program and the plan of a step take for each layer, however
// small it is: 36 layers of the smallest size left 290 KB for each after a collection.
const planBytes = 290e3

// needs returns about how many bytes a training step takes on one rank, at least: weights
// and two moments, which stay, or the parts of them that -zero leaves; gradients, one of a
// layer at a time; what every layer keeps
// for the backward pass, of which there are at least six arrays of the tokens; and the
// logits. It is computed in float64, which no flag overflows.
func (c config) needs(m sharding.Mesh) float64 {
	ep, tp := float64(max(1, m.Size("ep"))), float64(max(1, m.Size("tp")))
	d, f, e := float64(c.Width), float64(c.FFN), float64(c.Experts)
	layers, tokens := float64(c.Layers), float64(c.Batch/c.Micro)*float64(c.Seq)*tp/float64(m.Ranks())
	vocab := 2 * float64(c.Vocab) * d
	dense, experts := 4*d*d/tp+d*e, 3*e*d*f/(ep*tp)
	layer := dense + experts
	held := func(n, ranks float64) float64 { // of n weights that so many ranks have
		switch c.Zero {
		case zeroMoments:
			return n + 2*n/ranks
		case zeroWeights:
			return 3 * n / ranks
		}
		return 3 * n
	}
	dp := float64(max(1, m.Size("dp")))
	return 4*(held(vocab+layers*dense, dp*ep)+held(layers*experts, dp)+layer+tokens*(6*layers*d+float64(c.Vocab))) + planBytes*layers
}

// lighter returns the flags that may have a step take less memory.
func (c config) lighter(m sharding.Mesh) []train.Lighter {
	var all []train.Lighter
	add := func(flag string, change func(*config)) {
		other := c
		change(&other)
		if other.fits(m) == nil {
			all = append(all, train.Lighter{Setting: flag, Program: func() (*train.Program, gomoe.Config, error) {
				p, err := other.step(m, false)
				return p, other.placed(m), err
			}})
		}
	}
	for _, remat := range []string{rematProducts, rematAll} {
		add("-remat "+remat, func(c *config) { c.Remat = remat })
	}
	for _, n := range []int{2, 8} {
		add(fmt.Sprintf("-microbatches %d", n*c.Micro), func(c *config) { c.Micro *= n })
	}
	for _, zero := range []string{zeroMoments, zeroWeights} {
		add("-zero "+zero, func(c *config) { c.Zero = zero })
	}
	add("-sums bf16", func(c *config) { c.Sums.DType = graph.BF16 })
	add("-dtype bf16", func(c *config) { c.DType.DType = graph.BF16 })
	return all
}

// room returns an error if the model needs more memory than this process, which has that
// many ranks of the mesh, can take. It comes before anything is compiled, and names the
// flag without which the model would need least.
func (c config) room(m sharding.Mesh, ranks int, can memory.Limit) error {
	all := func(c config) float64 { return float64(ranks) * c.needs(m) }
	need := all(c)
	if need <= float64(can.Bytes) {
		return nil
	}
	usual, _, err := parse([]string{"-mesh="})
	if err != nil {
		return err
	}
	best, name, value := need, "", 0
	for _, size := range []struct {
		flag string
		of   func(*config) *int
	}{
		{"width", func(c *config) *int { return &c.Width }}, {"layers", func(c *config) *int { return &c.Layers }},
		{"ffn", func(c *config) *int { return &c.FFN }}, {"experts", func(c *config) *int { return &c.Experts }},
		{"seq", func(c *config) *int { return &c.Seq }}, {"batch", func(c *config) *int { return &c.Batch }},
	} {
		other := c
		*size.of(&other) = *size.of(&usual)
		if n := all(other); n < best {
			best, name, value = n, size.flag, *size.of(&c)
		}
	}
	what := "the model"
	if name != "" {
		what = fmt.Sprintf("-%s %d: the model", name, value)
	}
	return fmt.Errorf("%s needs at least %s of memory for the %d ranks in this process, and %s can be had (%s); want less, or more processes", what, memory.Format(need), ranks, memory.Format(float64(can.Bytes)), can.By)
}
