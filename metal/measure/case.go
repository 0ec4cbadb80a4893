package measure

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/sharding"
)

// Case is a program exercising the kernels it names.
type Case struct {
	Name    string
	Kernels []string // the kernels to measure; instructions of other kernels are not measured
	Program *graph.Program
	limits  map[string]int // upper bounds (exclusive) of integer inputs, by name
	config  gomoe.Config   // for several ranks, measuring the first
}

// shape is a case with letters for its sizes.
type shape struct {
	name    string
	kernels []string
	decode  bool // also measured for one token
	in      string
	body    string
	out     string
}

// spread is a shape on several ranks, or on one if the mesh is empty.
type spread struct {
	shape
	mesh, split string // split is the placement of the inputs x and idx
}

// Cases returns the programs of these sizes. If names are given, it returns only the cases of these
// kernels. The names of cases with one token, as in decoding, end in decode.
func Cases(z Sizes, names ...string) ([]Case, error) {
	all := kernels.All()
	for _, n := range names {
		if !slices.ContainsFunc(all, func(k kernels.Kernel) bool { return k.Name == n }) {
			return nil, fmt.Errorf("measure: there is no kernel %q", n)
		}
	}
	var cases []Case
	for _, s := range shapes() {
		var wanted []string
		for _, k := range s.kernels {
			if len(names) == 0 || slices.Contains(names, k) {
				wanted = append(wanted, k)
			}
		}
		if wanted == nil {
			continue
		}
		for _, tokens := range []int{z.Tokens, 1} {
			name := s.name
			if tokens == 1 {
				if !s.decode {
					continue
				}
				name += ", decode"
			}
			p, err := gomoe.Parse(s.name, z.fill("program p("+s.in+") {\n"+s.body+"\nreturn "+s.out+"\n}", tokens))
			if err != nil {
				return nil, fmt.Errorf("measure: %w", err)
			}
			c := Case{Name: name, Kernels: wanted, Program: p, limits: map[string]int{"ids": z.Vocabulary, "idx": z.Experts, "at": 2}}
			if c.config, err = s.config(); err != nil {
				return nil, fmt.Errorf("measure: %s: %w", name, err)
			}
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// config returns the case's ranks and placement.
func (s spread) config() (cfg gomoe.Config, err error) {
	if s.mesh == "" {
		return cfg, nil
	}
	if cfg.Mesh, err = sharding.ParseMesh(s.mesh); err != nil {
		return cfg, err
	}
	spec, err := sharding.ParseSpec(s.split)
	cfg.Place = map[string]sharding.Spec{"x": spec, "idx": spec}
	for name := range cfg.Place {
		if !strings.Contains(s.in, name+" ") {
			delete(cfg.Place, name)
		}
	}
	return cfg, err
}

// inputs returns the case's inputs: numbers in [-1, 1), weights in blocks of such numbers, and
// indices without repetitions within a row.
func (c Case) inputs() (map[string]array.Array, error) {
	in := map[string]array.Array{}
	r := rand.New(rand.NewPCG(1, 2))
	for _, v := range c.Program.In {
		a := array.New(v.Type)
		x := make([]float64, v.Type.Len())
		for i := range x {
			switch limit := c.limits[v.Name]; {
			case v.Type.DType.IsFloat(), v.Type.DType.IsF8(), v.Type.DType.IsBlock():
				x[i] = 2*r.Float64() - 1
			case limit == 0:
				x[i] = 1
			case v.Type.Rank() == 2 && v.Type.Shape[1] == topK && i%topK == 1:
				x[i] = float64((int(x[i-1]) + 1 + r.IntN(limit-1)) % limit)
			default:
				x[i] = float64(r.IntN(limit))
			}
		}
		if v.Name == "v" && v.Type.Rank() == 1 { // an optimizer's second moments must not be negative
			for i := range x {
				x[i] *= x[i]
			}
		}
		if err := a.SetFloat64s(x); err != nil {
			return nil, fmt.Errorf("measure: %s: input %s: %w", c.Name, v.Name, err)
		}
		in[v.Name] = a
	}
	return in, nil
}
