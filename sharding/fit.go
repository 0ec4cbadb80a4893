package sharding

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
)

// FitMesh reads a mesh like ParseMesh, except that the size of one axis may be *, as in
// "dp=*,ep=2": the mesh then has the given number of ranks. It is an error if they do not
// divide over the other axes. Ranks of 0 make the size of the axis 1.
func FitMesh(s string, ranks int) (Mesh, error) {
	before, after, free := strings.Cut(s, "=*")
	if !free {
		return ParseMesh(s)
	}
	if after != "" && after[0] != ',' && after[0] != ' ' || strings.Contains(after, "=*") || strings.Contains(before, " order") || strings.Contains(before, " blocks") {
		return Mesh{}, fmt.Errorf("sharding: mesh %s: want * as the size of one axis and nothing else, such as dp=*,ep=2", quoted.Text(s))
	}
	sized := func(n int) string { return before + "=" + strconv.Itoa(n) + after }
	if ranks == 0 {
		return ParseMesh(sized(1))
	}
	axes, _, _ := strings.Cut(sized(1), " order=")
	axes, _, _ = strings.Cut(axes, " blocks=")
	m, err := parseAxes(axes)
	if err != nil {
		return m, err
	}
	others := m.Ranks()
	if ranks < 0 || ranks%others != 0 {
		return Mesh{}, fmt.Errorf("sharding: mesh %s of %d ranks: the other axes have %d, want a multiple of that", quoted.Text(s), ranks, others)
	}
	return ParseMesh(sized(ranks / others))
}
