package sharding

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/internal/quoted"
)

// Axis is a named dimension of a mesh.
type Axis struct {
	Name string
	Size int
	// Ranges, if not nil, has a part for each rank along the axis: a dimension of
	// Ranges.Len() indices, such as the experts, is cut into these parts. All other
	// dimensions, and those placed by Mesh.Evenly, are cut as evenly as possible.
	Ranges ep.Split
	// Machines is the number of machines of the ranks along the axis: equally many on
	// each, with a machine's ranks next to each other. 0 and 1 mean one machine, or that
	// it does not matter. Rows dispatched to experts along the axis are sent once to each
	// machine, and forwarded there.
	Machines int
}

// Mesh arranges ranks in a grid, row-major: the last axis varies fastest. The
// zero Mesh is one rank.
type Mesh struct {
	Axes []Axis
	// Order, if not nil, names the rank at each place of the grid. It determines the
	// ranks along an axis, for example ranks with a cable between them. Nil means rank i
	// at place i.
	Order []int
	// Blocks, if not 0, cuts every dimension with this number of indices, or a multiple,
	// only between this many equal blocks, so that each rank has whole ones. It has no
	// effect on a mesh of more ranks than that.
	Blocks int
	// dividing: all parts count as equal in size; see Dividing.
	dividing bool
}

// ParseMesh reads a mesh such as "dp=2,ep=4". The empty string is one rank. Instead of
// its size an axis may have ranges in the form of ep.ParseSplit: ep=0-95/96-127 are two
// ranks, the first with 96 of 128 experts, and ep=128:3/1 gives the same by shares. A
// number of machines may precede either: ep=2x4 are 8 ranks on 2 machines (see
// Axis.Machines). The axes may be followed by the order of the ranks, as in "dp=2,ep=2
// order=0,2,1,3", and then by the number of indivisible blocks, as in "dp=3 blocks=8".
func ParseMesh(s string) (Mesh, error) {
	text, blocks, blocked := strings.Cut(" "+s, " blocks=")
	axes, order, ordered := strings.Cut(strings.TrimPrefix(text, " "), " order=")
	m, err := parseAxes(axes)
	if err == nil && blocked {
		if m.Blocks, err = strconv.Atoi(blocks); err != nil || m.Blocks < 1 {
			return Mesh{}, fmt.Errorf("sharding: mesh %s: %s is no number of blocks, want at least 1", quoted.Text(s), quoted.Text(blocks))
		}
	}
	if err == nil && ordered {
		m, err = m.Ordered(order)
	}
	return m, err
}

// Ordered returns the mesh with the ranks in the given order, such as "0,2,1,3": the
// numbers of all ranks, in the order of their places in the grid. "" leaves the mesh
// unchanged.
func (m Mesh) Ordered(order string) (Mesh, error) {
	if strings.TrimSpace(order) == "" {
		return m, nil
	}
	m.Order = nil
	for _, text := range strings.Split(order, ",") {
		rank, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return Mesh{}, fmt.Errorf("sharding: order %s: %s is no rank, want numbers with commas between, such as 0,2,1,3", quoted.Text(order), quoted.Text(text))
		}
		m.Order = append(m.Order, rank)
	}
	return m, m.validate()
}

// parseAxes reads the axes of a mesh.
func parseAxes(s string) (Mesh, error) {
	var m Mesh
	if strings.TrimSpace(s) == "" {
		return m, nil
	}
	total := 1
	for _, part := range strings.Split(s, ",") {
		name, size, ok := strings.Cut(strings.TrimSpace(part), "=")
		machines, err := 1, error(nil)
		if count, each, several := strings.Cut(size, "x"); several && !strings.ContainsAny(count, "/:") {
			machines, err = strconv.Atoi(count)
			size = each
		}
		var ranges ep.Split
		n := 0
		switch {
		case err != nil || machines < 1 || machines > maxRanks:
			ok = false
		case ok && strings.ContainsAny(size, "/:"):
			if ranges, err = ep.ParseSplit(size); err != nil {
				return Mesh{}, fmt.Errorf("sharding: mesh %s: axis %s: %w", quoted.Text(s), name, err)
			}
			n = ranges.Parts()
		default:
			if n, err = strconv.Atoi(size); n <= maxRanks {
				n *= machines
			}
		}
		switch {
		case size == "*" && machines == 1:
			return Mesh{}, fmt.Errorf("sharding: mesh %s: %s is left to the number of ranks; world.ParseMesh reads such a mesh, or FitMesh with a number", quoted.Text(s), name)
		case !ok || err != nil || n < 1:
			return Mesh{}, fmt.Errorf("sharding: mesh %s: %s is no axis, want name=size with a size of at least 1, such as dp=2,ep=4", quoted.Text(s), quoted.Text(part))
		case !axisName(name):
			return Mesh{}, fmt.Errorf("sharding: mesh %s: axis name %s, want a letter and then letters or digits", quoted.Text(s), quoted.Text(name))
		case m.Size(name) > 0:
			return Mesh{}, fmt.Errorf("sharding: mesh %s: axis %s is given twice", quoted.Text(s), name)
		case n > maxRanks || total*n > maxRanks:
			return Mesh{}, fmt.Errorf("sharding: mesh %s: more than %d ranks", quoted.Text(s), maxRanks)
		}
		total *= n
		axis := Axis{Name: name, Size: n, Ranges: ranges}
		if machines > 1 {
			axis.Machines = machines
		}
		m.Axes = append(m.Axes, axis)
	}
	return m, m.validate()
}

// maxRanks bounds the mesh, so that a mistyped size is an error.
const maxRanks = 1 << 16

func axisName(s string) bool {
	for i, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return s != ""
}

// String prints the mesh in the form of ParseMesh.
func (m Mesh) String() string {
	parts := make([]string, len(m.Axes))
	for i, a := range m.Axes {
		machines := max(a.Machines, 1)
		size := strconv.Itoa(a.Size / machines)
		if a.Ranges != nil {
			size = a.Ranges.String()
		}
		if machines > 1 {
			size = strconv.Itoa(machines) + "x" + size
		}
		parts[i] = a.Name + "=" + size
	}
	text := strings.Join(parts, ",")
	if m.Order != nil {
		order := make([]string, len(m.Order))
		for i, r := range m.Order {
			order[i] = strconv.Itoa(r)
		}
		text += " order=" + strings.Join(order, ",")
	}
	if m.Blocks > 0 {
		text += " blocks=" + strconv.Itoa(m.Blocks)
	}
	return strings.TrimPrefix(text, " ")
}

// InBlocks returns the mesh with the given number of Blocks, or without if it is 0.
func (m Mesh) InBlocks(blocks int) Mesh {
	m.Blocks = blocks
	return m
}

// Dividing returns the mesh with axes counting as dividing every dimension. Placing a
// program on it finds the axes splitting its values, whatever their sizes; no plan is
// made of the placement.
func (m Mesh) Dividing() Mesh {
	m.dividing = true
	return m
}

// Equal reports whether both meshes have the same axes in the same order, with the same ranges
// and machines, and the same order of ranks and number of blocks.
func (m Mesh) Equal(o Mesh) bool {
	return m.Blocks == o.Blocks && slices.Equal(m.Order, o.Order) && slices.EqualFunc(m.Axes, o.Axes, func(a, b Axis) bool {
		return a.Name == b.Name && a.Size == b.Size && max(a.Machines, 1) == max(b.Machines, 1) && slices.Equal(a.Ranges, b.Ranges)
	})
}

// Ranks returns the number of ranks.
func (m Mesh) Ranks() int {
	n := 1
	for _, a := range m.Axes {
		n *= a.Size
	}
	return n
}

// Size returns the size of the axis, or 0 if the mesh has no axis of that name.
func (m Mesh) Size(axis string) int { return m.axis(axis).Size }

// has reports whether the mesh has an axis of that name; a level is none.
func (m Mesh) has(axis string) bool {
	axis = AxisOf(axis)
	return slices.ContainsFunc(m.Axes, func(a Axis) bool { return a.Name == axis })
}

const even = ":even"

// Evenly returns axes as entries of a placement that cut a dimension as evenly as
// possible, also if it has as many indices as an axis has experts in its Ranges: "ep:even"
// for "ep" if that has Ranges. A batch is placed so.
func (m Mesh) Evenly(axes []string) []string {
	list := make([]string, len(axes))
	for i, a := range axes {
		list[i] = m.canonical(AxisOf(a) + even)
	}
	return list
}

// AxisOf returns the axis of an entry of a placement: "ep" for "ep" and for "ep:even".
func AxisOf(entry string) string { return strings.TrimSuffix(entry, even) }

// Over reports whether one of the entries of a placement is of the given axis.
func Over(entries []string, axis string) bool {
	return slices.ContainsFunc(entries, func(a string) bool { return AxisOf(a) == AxisOf(axis) })
}

// canonical returns an entry of a placement without Evenly's mark if the axis has no
// ranges. It stays on a mesh that finds the axes for other meshes, see Dividing.
func (m Mesh) canonical(entry string) string {
	if axis := AxisOf(entry); m.Ranges(axis) == nil && !m.dividing {
		return axis
	}
	return entry
}

// Machines returns the number of machines of the ranks along the axis, 1 if the mesh does
// not give it.
func (m Mesh) Machines(axis string) int { return max(m.axis(axis).Machines, 1) }

// Levels returns the names of the two levels of an axis over several machines: along the
// first, a rank's group has the ranks at the same position in each machine, and along the
// second the ranks of its machine. Together they are the axis. Collectives may run over
// them, and nothing is placed on them.
func Levels(axis string) (between, within string) { return axis + ":machines", axis + ":machine" }

// axis returns the axis, or level of an axis, with the given name. Its size is 0 if the
// mesh has none.
func (m Mesh) axis(name string) Axis {
	axis := AxisOf(name)
	for _, a := range m.Axes {
		if a.Name == axis {
			if axis != name {
				a.Ranges = nil
			}
			return a
		}
		if a.Machines > 1 {
			switch between, within := Levels(a.Name); name {
			case between:
				return Axis{Name: name, Size: a.Machines}
			case within:
				return Axis{Name: name, Size: a.Size / a.Machines}
			}
		}
	}
	return Axis{}
}

// validate returns an error for an order that is no permutation of all ranks, and for
// ranges that do not fit their axis.
func (m Mesh) validate() error {
	if m.Order != nil {
		n := m.Ranks()
		seen := make([]bool, n)
		for _, r := range m.Order {
			if r < 0 || r >= n || seen[r] {
				return fmt.Errorf("sharding: order %v of the %d ranks of a mesh, want each of 0 to %d once", m.Order, n, n-1)
			}
			seen[r] = true
		}
		if len(m.Order) != n {
			return fmt.Errorf("sharding: order %v of the %d ranks of a mesh, want each of 0 to %d once", m.Order, n, n-1)
		}
	}
	for _, a := range m.Axes {
		if a.Machines < 0 || a.Machines > 1 && a.Size%a.Machines != 0 {
			return fmt.Errorf("sharding: axis %s of size %d on %d machines, want as many ranks on each", a.Name, a.Size, a.Machines)
		}
		if a.Ranges == nil {
			continue
		}
		if err := a.Ranges.Validate(); err != nil {
			return fmt.Errorf("sharding: axis %s: %w", a.Name, err)
		}
		if a.Ranges.Parts() != a.Size {
			return fmt.Errorf("sharding: axis %s of size %d has %d ranges, want one for each rank along it", a.Name, a.Size, a.Ranges.Parts())
		}
	}
	return nil
}

// Ranges returns the ranges of the axis, nil if it has none.
func (m Mesh) Ranges(axis string) ep.Split { return m.axis(axis).Ranges }

// Parts returns the product of the sizes of axes.
func (m Mesh) Parts(axes []string) int {
	n := 1
	for _, a := range axes {
		n *= m.Size(a)
	}
	return n
}

// place returns the rank's place in the grid.
func (m Mesh) place(rank int) int {
	if m.Order == nil {
		return rank
	}
	return slices.Index(m.Order, rank)
}

// coord returns the rank's coordinate along the axis, 0 if the mesh has no such axis.
func (m Mesh) coord(rank int, axis string) int {
	c, _ := m.step(m.place(rank), axis)
	return c
}

// step returns the coordinate of a place along the axis or level, and the distance
// between places with adjacent coordinates. Both are 0 if the mesh has no such axis.
func (m Mesh) step(place int, axis string) (coord, step int) {
	step, axis = 1, AxisOf(axis)
	for i := len(m.Axes) - 1; i >= 0; i-- {
		a := m.Axes[i]
		if a.Name == axis {
			return place % a.Size, step
		}
		if a.Machines > 1 {
			each := a.Size / a.Machines
			switch between, within := Levels(a.Name); axis {
			case between:
				return place % a.Size / each, step * each
			case within:
				return place % a.Size % each, step
			}
		}
		place /= a.Size
		step *= a.Size
	}
	return 0, 0
}

// Along returns the rank with coordinate coord along the axis and the other coordinates
// of the given rank. If the mesh has no such axis, it is the given rank.
func (m Mesh) Along(rank int, axis string, coord int) int {
	place := m.place(rank)
	own, step := m.step(place, axis)
	place += (coord - own) * step
	if m.Order == nil {
		return place
	}
	return m.Order[place]
}

// Index returns the rank's index along the axes together. The first axis varies
// slowest.
func (m Mesh) Index(rank int, axes []string) int {
	n := 0
	for _, a := range axes {
		n = n*m.Size(a) + m.coord(rank, a)
	}
	return n
}

// Group returns the ranks with coordinates differing from the rank's along the given axes
// or levels only, in the order of their Index along the axes.
func (m Mesh) Group(rank int, axes []string) []int {
	out := []int{rank}
	for _, a := range axes {
		var more []int
		for _, r := range out {
			for c := range m.Size(a) {
				more = append(more, m.Along(r, a, c))
			}
		}
		out = more
	}
	return out
}

// ordered returns the axes of the entries in set, in mesh order.
func (m Mesh) ordered(set []string) []string {
	var out []string
	for _, a := range m.Axes {
		if Over(set, a.Name) {
			out = append(out, a.Name)
		}
	}
	return out
}
