package nn

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/sharding"
)

// BalanceCopies returns a function for Options.Copies. The function places replicas of experts so that the measured
// loads are balanced over the ranks of the mesh axis ep, using ep.BalanceCopies. further is the number of
// additional experts per rank. If the axis is split by ranges, the ranges set the number of experts per rank, and
// further must be 0. loads maps layer names to the load of each expert, as measured by evaluate.Load. If loads is
// nil, all experts count as equally loaded.
func BalanceCopies(m sharding.Mesh, further int, loads map[string][]float64) func(layer string, experts int) (ep.Copies, error) {
	return func(layer string, experts int) (ep.Copies, error) {
		load, ok := loads[layer]
		switch {
		case loads == nil:
			load = make([]float64, experts)
			for e := range load {
				load[e] = 1
			}
		case !ok:
			return nil, fmt.Errorf("no loads for layer %s, want those of its %d experts; there are loads for %s", layer, experts, strings.Join(slices.Sorted(maps.Keys(loads)), ", "))
		case len(load) != experts:
			return nil, fmt.Errorf("loads of %d experts for layer %s, want %d", len(load), layer, experts)
		}
		var axes []string
		if m.Size("ep") > 0 {
			axes = []string{"ep"}
		}
		n := experts + further*m.Parts(axes)
		if r := m.Ranges("ep"); r != nil {
			if further != 0 {
				return nil, fmt.Errorf("%d further experts on each rank, but the mesh %q says how many each has; give one of the two", further, m)
			}
			n = r.Len()
		}
		return ep.BalanceCopies(load, m.Cuts(axes, n))
	}
}
