package lm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// Choice is a flag restricted to a few values.
type Choice struct {
	Is string
	Of []string
}

func (c *Choice) String() string { return c.Is }

func (c *Choice) Set(s string) error {
	if !slices.Contains(c.Of, s) {
		n := len(c.Of) - 1
		return fmt.Errorf("want %s or %s", strings.Join(c.Of[:n], ", "), c.Of[n])
	}
	c.Is = s
	return nil
}

// orOff returns the value, or "" if it is the first one, which means off.
func (c Choice) orOff() string {
	if c.Is == c.Of[0] {
		return ""
	}
	return c.Is
}

// dtype returns the element type with the chosen name.
func (c Choice) dtype() graph.DType {
	for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16} {
		if d.String() == c.Is {
			return d
		}
	}
	return graph.NoDType
}
