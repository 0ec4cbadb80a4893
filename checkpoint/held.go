package checkpoint

import (
	"fmt"

	"github.com/gomoe/gomoe/sharding"
)

// Held describes the part of a model held by a rank of a mesh.
type Held struct {
	First, Experts int // range of experts per layer: Experts of them, starting with First
	Bytes          int64
}

// Held returns the part of the model held by each rank of a mesh: its experts, sharded over the axis ep, and
// everything else. It is an error if the mesh has axes other than ep and dp, which replicates the model.
func (c *Checkpoint) Held(m sharding.Mesh) ([]Held, error) {
	for _, a := range m.Axes {
		if a.Name != "ep" && a.Name != "dp" {
			return nil, fmt.Errorf("axis %s: want ep, which splits the experts, or dp, which copies the model", a.Name)
		}
	}
	s, err := c.Summary()
	if err != nil {
		return nil, err
	}
	for _, a := range m.Axes {
		if a.Ranges != nil && a.Ranges.Len() != s.Experts {
			return nil, fmt.Errorf("axis %s has ranges of %d experts, want the model's %d", a.Name, a.Ranges.Len(), s.Experts)
		}
	}
	var axes []string
	if m.Size("ep") > 0 {
		axes = []string{"ep"}
	}
	held := make([]Held, m.Ranks())
	for i := range held {
		held[i].First, held[i].Experts = m.Part(i, axes, s.Experts)
	}
	names := NamesOf(c.Config.Architecture)
	for _, t := range c.Tensors {
		r, bytes := names.Role(t.Name), int64(len(t.Mem))
		for i := range held {
			h := &held[i]
			switch {
			case r.Part != Experts:
				h.Bytes += bytes
			case r.Layout != PerExpert:
				h.Bytes += bytes / int64(max(s.Experts, 1)) * int64(h.Experts)
			case r.Expert >= h.First && r.Expert < h.First+h.Experts:
				h.Bytes += bytes
			}
		}
	}
	return held, nil
}
