package fuzzprog

import (
	"math/rand/v2"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// Meshes returns the meshes for placing programs. Constraints in programs name their
// axes.
func Meshes() []string {
	return []string{"a=2", "ep=2", "dp=2,ep=2", "a=2,b=2", "a=3", "a=2,b=3", "a=5", "ep=3", "ep=2x2", "a=2,ep=4:3/1"}
}

// Place returns a random placement of p's inputs on m, of one of three kinds: each axis
// splits some dimension of some inputs; the axes split the first dimension of all inputs
// of the same size; or the experts' axes split the inputs that have experts.
func Place(p *graph.Program, m sharding.Mesh, seed uint64) map[string]sharding.Spec {
	r := rand.New(rand.NewPCG(seed, 2))
	place := map[string]sharding.Spec{}
	if len(p.In) == 0 {
		return place
	}
	percent := []int{10, 30, 60}[r.IntN(3)]
	batch := -1 // the size of the dimension split by all axes
	if r.IntN(3) == 0 {
		if v := p.In[r.IntN(len(p.In))]; v.Rank() > 0 {
			batch = v.Dim(0)
		}
	}
	for _, v := range p.In {
		s := sharding.Spec{Dims: make([][]string, v.Rank())}
		for _, i := range r.Perm(len(m.Axes)) {
			a := m.Axes[i]
			for _, d := range r.Perm(v.Rank()) {
				if batch >= 0 && d == 0 && v.Dim(0) == batch || batch < 0 && r.IntN(100) < percent {
					entry := []string{a.Name}
					if a.Ranges != nil && r.IntN(2) == 0 {
						entry = m.Evenly(entry)
					}
					s.Dims[d] = append(slices.Clone(s.Dims[d]), entry...)
					break
				}
			}
		}
		if !s.Whole() {
			place[v.Name] = s
		}
	}
	return place
}
