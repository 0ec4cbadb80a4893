package train

import (
	"slices"
	"strings"

	"github.com/gomoe/gomoe/sharding"
)

// Zero is what is split, in the first dimension, over the ranks that have other sequences and the same part of a
// weight. Steps compute the same, in less memory.
type Zero string

const (
	ZeroOff     Zero = ""
	ZeroMoments Zero = "moments" // what the optimiser keeps
	ZeroWeights Zero = "weights" // the weights, too; they are gathered where the model uses them
)

// moments returns the placement of what the optimiser keeps of a parameter with that placement, per dimension the mesh
// axes with dots between.
func (s *Step) moments(place []string, rank int) []string {
	return s.split(place, rank, s.config.Zero != ZeroOff)
}

// weights returns the placement of the parameter.
func (s *Step) weights(place []string, rank int) []string {
	return s.split(place, rank, s.config.Zero == ZeroWeights)
}

func (s *Step) split(place []string, rank int, over bool) []string {
	dims := make([]string, rank)
	copy(dims, place)
	if !over || rank == 0 {
		return dims
	}
	for _, axis := range s.config.Batch {
		if !slices.Contains(place, axis) {
			dims[0] = strings.TrimPrefix(dims[0]+"."+axis, ".")
		}
	}
	return dims
}

// Spec returns the placement on a mesh, without the axes that the mesh lacks.
func (st State) Spec(m sharding.Mesh) sharding.Spec { return st.everywhere().On(m) }

// everywhere returns the placement with all axes, as gomoe.Config.Place has them: the mesh may lack some.
func (st State) everywhere() sharding.Spec { return sharding.Split(st.Place...) }
