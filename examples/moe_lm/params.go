package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
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

// initial traces the weights and moments that training starts from, in the
// order of the step's results. Each rank makes its own part of the weights;
// they depend on the seed alone and are the same on every mesh.
func (c config) initial(seed uint64, m sharding.Mesh) (*graph.Program, error) {
	return graph.Trace("initial", func(t *graph.Tracer) []*graph.Value {
		key := RandomKey(t, int64(seed))
		var out []*graph.Value
		for i, p := range c.params() {
			w := Full(t, 1, graph.F32, p.shape...)
			if p.std != 0 {
				k := RandomFoldIn(key, Full(t, float64(i), graph.U32))
				w = MulScalar(RandomNormal(k, graph.F32, p.shape...), p.std)
			}
			zero := Full(t, 0, graph.F32, p.shape...)
			for j, v := range []*graph.Value{w, zero, zero} {
				prefix := []string{"w_", "m_", "v_"}[j]
				dims := make([]string, len(p.shape))
				for d, axes := range c.spec(p, prefix, m).Dims {
					dims[d] = strings.Join(axes, ".")
				}
				out = append(out, ShardingConstraint(v, dims...).Named(prefix+p.name))
			}
		}
		return out
	})
}

// spec returns where the array of that prefix, w_, m_ or v_, of a weight lies, without the
// axes that the mesh lacks. What -zero splits is also split, in the first dimension, over
// the axes of the batch that do not split the weight.
func (c config) spec(p param, prefix string, m sharding.Mesh) sharding.Spec {
	s := sharding.Split(append(slices.Clone(p.place), make([]string, len(p.shape)-len(p.place))...)...).On(m)
	if c.Zero == zeroWeights || c.Zero == zeroMoments && prefix != "w_" {
		for _, a := range batchSpec(m).Dims[0] {
			if !slices.Contains(s.Axes(), a) {
				s.Dims[0] = append(s.Dims[0], a)
			}
		}
	}
	return s
}

// used returns a weight that -zero may have split, as the layers use it. It is gathered before
// it is cast, so that gradients are added up in f32.
func (c config) used(w *graph.Value, place ...string) *graph.Value {
	if c.Zero == zeroWeights {
		return ShardingConstraint(w, place...)
	}
	return w
}

// batchSpec splits sequences over every axis except tp.
func batchSpec(m sharding.Mesh) sharding.Spec {
	var axes []string
	for _, a := range m.Axes {
		if a.Name != "tp" {
			axes = append(axes, a.Name)
		}
	}
	return sharding.Spec{Dims: [][]string{axes}}
}
