package pretrain

import (
	"fmt"
	"strings"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/train"
)

// placed says how a step lies on the mesh, but for its weights.
func (s *Settings) placed(p *train.Program) gomoe.Config {
	cfg := gomoe.Config{Mesh: s.Mesh, Place: s.places()}
	if s.Sums != graph.F32 {
		cfg.Sums = s.Sums
	}
	if s.Exact {
		cfg.Exact = gomoe.ExactBlocks
	}
	for _, in := range p.In {
		if strings.HasPrefix(in.Name, train.ChoicesPrefix) {
			cfg.Place[in.Name] = cfg.Place[data.Tokens]
		}
	}
	return cfg
}

// lighter returns the settings that may have a step take less memory.
func (s *Settings) lighter(m *models.Model, o Options) []train.Lighter {
	var all []train.Lighter
	add := func(setting string, change func(*Settings)) {
		other := *s
		change(&other)
		if err := other.Place(s.Mesh.String()); err != nil {
			return // the batch does not divide
		}
		all = append(all, train.Lighter{Setting: setting, Program: func() (*train.Program, gomoe.Config, error) {
			p, err := other.trace(m, o)
			if err != nil {
				return nil, gomoe.Config{}, err
			}
			return p, other.placed(p), nil
		}})
	}
	for _, remat := range []string{"products", "all"} {
		add(fmt.Sprintf(`"remat": %q`, remat), func(s *Settings) { s.Remat = remat })
	}
	for _, n := range []int{2, 8} {
		add(fmt.Sprintf(`"microbatches": %d`, n*s.Microbatches), func(s *Settings) { s.Microbatches *= n })
	}
	for _, zero := range []string{"moments", "weights"} {
		add(fmt.Sprintf(`"zero": %q`, zero), func(s *Settings) { s.Zero = zero })
	}
	add(`"sums": "bf16"`, func(s *Settings) { s.Sums = graph.BF16 })
	add(`"dtype": "bf16"`, func(s *Settings) { s.DType = graph.BF16 })
	return all
}
