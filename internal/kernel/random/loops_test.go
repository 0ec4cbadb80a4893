package random

import "github.com/gomoe/gomoe/internal/kernel"

// loopsHere returns the loops of this processor by the names of their kinds.
func loopsHere() map[string]*loops {
	have := map[string]*loops{"portable": nil}
	for _, k := range kernel.Available() {
		if l := loopsFor(k.Vectors()); l != nil {
			have[k.String()] = l
		}
	}
	return have
}
