package train

import (
	"slices"
	"strings"

	"github.com/gomoe/gomoe/sharding"
)

// Zero selects the state to shard in its first dimension, over the ranks that process different sequences but hold
// the same shard of a weight. It saves memory without changing the computation.
type Zero string

const (
	ZeroOff     Zero = ""
	ZeroMoments Zero = "moments" // the optimiser's state
	ZeroWeights Zero = "weights" // the weights as well, gathering them where the model uses them
)

// String returns off for ZeroOff.
func (z Zero) String() string { return or(string(z), "off") }

// moments returns the placement of optimiser state for a parameter placed as given. Each dimension lists its mesh
// axes, separated by dots.
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

// Spec returns the placement on a mesh, leaving out axes missing from the mesh.
func (st State) Spec(m sharding.Mesh) sharding.Spec { return st.everywhere().On(m) }

// everywhere returns the placement with all axes, including those missing from the mesh, for gomoe.Config.Place.
func (st State) everywhere() sharding.Spec { return sharding.Split(st.Place...) }
