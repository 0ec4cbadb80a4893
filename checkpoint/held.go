package checkpoint

import (
	"fmt"

	"github.com/gomoe/gomoe/sharding"
)

// Held is what a rank of a mesh holds of a model.
type Held struct {
	First, Experts int // the experts of each layer: Experts of them from First on
	Bytes          int64
}

// Held returns what each rank of a mesh holds: its experts, which the axis ep splits, and all of the rest. It is an
// error if the mesh has other axes than dp, which copies the model, and ep.
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
