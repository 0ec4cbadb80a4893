package main

import (
	"slices"

	"fmt"
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	. "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// param is one array of weights.
type param struct {
	name  string
	shape []int
	std   float64  // of the initial values; 0 means that they are all one (gains)
	place []string // per dimension, the mesh axis that splits it
}

// params lists the model's weights. Experts lie on the ep axis; where the mesh
// has a tp axis, attention heads and expert columns lie on it.
func (c config) params() []param {
	d, f, e := c.Width, c.FFN, c.Experts
	in, out := 1/math.Sqrt(float64(d)), 1/math.Sqrt(float64(d)*2*float64(c.Layers))
	ps := []param{{"embed", []int{c.Vocab, d}, 0.02, nil}}
	for l := range c.Layers {
		n := func(s string) string { return fmt.Sprintf("l%d_%s", l, s) }
		ps = append(ps,
			param{n("norm1"), []int{d}, 0, nil},
			param{n("wq"), []int{d, d}, in, []string{"", "tp"}},
			param{n("wk"), []int{d, d}, in, []string{"", "tp"}},
			param{n("wv"), []int{d, d}, in, []string{"", "tp"}},
			param{n("wo"), []int{d, d}, out, []string{"tp"}},
			param{n("norm2"), []int{d}, 0, nil},
			param{n("router"), []int{d, e}, in, nil},
			param{n("gate"), []int{e, d, f}, in, []string{"ep", "", "tp"}},
			param{n("up"), []int{e, d, f}, in, []string{"ep", "", "tp"}},
			param{n("down"), []int{e, f, d}, 1 / math.Sqrt(float64(f)*2*float64(c.Layers)), []string{"ep", "tp"}},
		)
	}
	return append(ps, param{"norm", []int{d}, 0, nil}, param{"head", []int{d, c.Vocab}, in, nil})
}

// count returns the number of weights, and the number of weights that one token
// uses.
func (c config) count() (all, active int) {
	for _, p := range c.params() {
		n := graph.Type{Shape: p.shape}.Len()
		all += n
		if len(p.shape) == 3 {
			n = n / c.Experts * c.TopK
		}
		active += n
	}
	return all, active
}

// inputs declares the weights in a scope, in the order of params, and returns them by name, as they
// are given: what -zero has split is gathered inside of layers, which drop it with -remat.
func (c config) inputs(s *nn.Scope) map[string]*graph.Value {
	w := map[string]*graph.Value{}
	for _, p := range c.params() {
		begin := nn.Init{Std: p.std}
		if p.std == 0 {
			begin.Mean = 1
		}
		s.Param(p.name, "", begin, p.place, p.shape...)
	}
	for i, v := range s.Values() {
		w[s.Params()[i].Name] = v
	}
	return w
}

// used returns a weight that -zero may have split, as the layers use it. It is gathered before
// it is cast, so that gradients are added up in f32.
func (c config) used(w *graph.Value, place ...string) *graph.Value {
	if c.Zero == zeroWeights {
		return ShardingConstraint(w, place...)
	}
	return w
}

// batchSpec splits sequences over every axis except tp, also those that the mesh lacks.
func batchSpec(m sharding.Mesh) sharding.Spec {
	var axes []string
	for _, a := range m.Axes {
		if a.Name != "tp" {
			axes = append(axes, a.Name)
		}
	}
	for _, name := range []string{"dp", "ep"} {
		if !slices.Contains(axes, name) {
			axes = append(axes, name)
		}
	}
	return sharding.Spec{Dims: [][]string{axes}}
}
