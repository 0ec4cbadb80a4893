package blocks

import "github.com/gomoe/gomoe/internal/kernel"

type namedSet struct {
	name string
	set  *set
}

// available returns the functions of this processor, the best first.
func available() []namedSet {
	var all []namedSet
	for _, k := range kernel.Available() {
		all = append(all, namedSet{k.String(), setOf(k)})
	}
	return all
}
