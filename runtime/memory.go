package runtime

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/pages"
)

// lasting returns a zeroed array for memory that a session keeps between steps. Large
// arrays use large pages if the system has them.
func lasting(t graph.Type) array.Array {
	a := array.New(t)
	pages.Large(a.Bytes())
	return a
}
