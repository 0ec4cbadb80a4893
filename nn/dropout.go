package nn

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Dropout returns x with each element set to 0 with probability rate and divided by 1-rate otherwise. The mask
// depends only on Options.Key and on the number of preceding calls in the model, so it is the same on every mesh.
// Without Options.Key, as when evaluating or generating, Dropout returns x.
func (s *Scope) Dropout(x *graph.Value, rate float64) *graph.Value {
	graph.Helper()
	if s.opts.Key == nil || rate == 0 {
		return x
	}
	if s.key == nil {
		s.key = s.opts.Key(s.t)
	}
	s.drops++
	return primitives.Dropout(x, primitives.RandomFoldIn(s.key, primitives.Full(s.t, float64(s.drops), graph.U32)), rate)
}
