package sharding

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
)

// Cut returns part i of n units split by axes: size units from unit start on. i counts
// the parts like Mesh.Index counts ranks along the axes. The first axis cuts the units
// into contiguous parts, as evenly as possible: if p ranks do not divide n, the first n
// mod p parts have one unit more, and some parts are empty if n < p. The next axis cuts
// each of these parts in the same way, and so on. An axis with ranges of n units cuts
// them into these ranges instead. Otherwise, if the mesh has Blocks that divide the
// units, blocks are cut instead of units. So the concatenation of the parts along the
// last axes is the part along the first axes.
func (m Mesh) Cut(axes []string, n, i int) (start, size int) {
	unit, blocked := 1, m.blocked(axes, n)
	if blocked {
		unit = n / m.Blocks
	}
	size = n / unit
	behind := m.Parts(axes)
	for _, a := range axes {
		axis := m.axis(a)
		p := axis.Size
		behind /= p
		c, each, more := i/behind%p, size/p, size%p
		if !blocked && axis.Ranges != nil && axis.Ranges.Len() == size {
			start += axis.Ranges[c]
			size = axis.Ranges.Size(c)
			continue
		}
		start += c*each + min(c, more)
		size = each
		if c < more {
			size++
		}
	}
	return start * unit, size * unit
}

// Cuts returns all parts of n units split by axes; see Cut.
func (m Mesh) Cuts(axes []string, n int) ep.Split {
	s := make(ep.Split, m.Parts(axes)+1)
	for i := range s.Parts() {
		start, size := m.Cut(axes, n, i)
		s[i+1] = start + size
	}
	return s
}

// Part returns the rank's range of n units split by axes; see Cut.
func (m Mesh) Part(rank int, axes []string, n int) (start, size int) {
	return m.Cut(axes, n, m.Index(rank, axes))
}

// Part returns the start and the size of the rank's part of dimension d, both in
// elements. The whole value has type t. Elements of quantised types are cut between
// blocks. The rows of a ragged value begin at 0 on every rank, and the size is their
// capacity.
func (s Spec) Part(m Mesh, rank int, t graph.Type, d int) (start, size int) {
	if d == 0 && s.Ragged != nil {
		return 0, s.Ragged.Rows
	}
	unit := Unit(t, d)
	start, size = m.Part(rank, s.At(d), t.Shape[d]/unit)
	return start * unit, size * unit
}

// Unit returns the number of elements of dimension d that are indivisible.
func Unit(t graph.Type, d int) int {
	if d == t.Rank()-1 {
		n, _ := t.DType.Block()
		return n
	}
	return 1
}

// Box returns the start, in every dimension, of the rank's part of a value of type t, and
// the type of the part.
func (s Spec) Box(m Mesh, rank int, t graph.Type) (start []int, part graph.Type) {
	start, part = make([]int, t.Rank()), graph.Type{DType: t.DType, Shape: make([]int, t.Rank())}
	for d := range start {
		start[d], part.Shape[d] = s.Part(m, rank, t, d)
	}
	return start, part
}

// Local returns the type of a part with capacity for every rank's: if parts differ in
// size, every dimension is the largest one's.
func (s Spec) Local(m Mesh, t graph.Type) graph.Type {
	first := 0
	if m.Order != nil {
		first = m.Order[0]
	}
	_, part := s.Box(m, first, t) // the largest, unless an axis has ranges
	for d := range part.Shape {
		if d == 0 && s.Ragged != nil || !m.ranged(s.At(d)) {
			continue
		}
		unit := Unit(t, d)
		part.Shape[d] = m.Cuts(s.At(d), t.Shape[d]/unit).Largest() * unit
	}
	return part
}

// blocked reports whether axes cut n units between blocks only.
func (m Mesh) blocked(axes []string, n int) bool {
	return m.Blocks > 0 && n > 0 && n%m.Blocks == 0 && m.Ranks() <= m.Blocks &&
		!slices.ContainsFunc(axes, func(a string) bool { r := m.Ranges(a); return r != nil && r.Len() == n })
}

// ranged reports whether one of the axes has ranges.
func (m Mesh) ranged(axes []string) bool {
	return slices.ContainsFunc(axes, func(a string) bool { return m.Ranges(a) != nil })
}

// Even reports whether all parts of n units split by axes have the same size.
func (m Mesh) Even(axes []string, n int) bool {
	if m.dividing {
		return true
	}
	if !m.ranged(axes) {
		if m.blocked(axes, n) {
			n = m.Blocks
		}
		return n%m.Parts(axes) == 0
	}
	cuts := m.Cuts(axes, n)
	return cuts.Largest()*cuts.Parts() == n
}

// Even reports whether all ranks' parts of dimension d have the same size.
func (s Spec) Even(m Mesh, t graph.Type, d int) bool {
	if d == 0 && s.Ragged != nil {
		return true
	}
	return m.Even(s.At(d), t.Shape[d]/Unit(t, d))
}

// Uneven prints a rank's part of a value of type t with parts differing in size, such as
// f32[7@ep,4]: dimensions with parts of different sizes have the size of the whole and
// the axes splitting it, other dimensions the size of the part. It returns "" if all
// parts have the same type. Values with equal descriptions have parts of equal types on
// every rank.
func (s Spec) Uneven(m Mesh, t graph.Type) string {
	dims, uneven := make([]string, t.Rank()), false
	for d := range dims {
		if s.Even(m, t, d) {
			_, n := s.Part(m, 0, t, d)
			dims[d] = strconv.Itoa(n)
			continue
		}
		uneven = true
		dims[d] = strconv.Itoa(t.Shape[d]) + "@" + strings.Join(s.At(d), ".")
	}
	if !uneven {
		return ""
	}
	return t.DType.String() + "[" + strings.Join(dims, ",") + "]"
}

// CutAlike reports whether axes cut n units and k units alike: each rank has the same share of
// both.
func (m Mesh) CutAlike(axes []string, n, k int) bool {
	return n == k || m.Even(axes, n) && m.Even(axes, k) || m.blocked(axes, n) && m.blocked(axes, k)
}

// PlacesAlike reports whether a value of type t with placement s has the same parts on m
// and on another mesh: an equal one, or one with other Blocks that cut it alike.
func (m Mesh) PlacesAlike(o Mesh, s Spec, t graph.Type) bool {
	if m.Equal(o) {
		return true
	}
	if !m.InBlocks(o.Blocks).Equal(o) {
		return false
	}
	for d, n := range t.Shape {
		if unit := Unit(t, d); !slices.Equal(m.Cuts(s.At(d), n/unit), o.Cuts(s.At(d), n/unit)) {
			return false
		}
	}
	return true
}

// cutAlike is CutAlike for dimension d of t and dimension e of u.
func (m Mesh) cutAlike(axes []string, t graph.Type, d int, u graph.Type, e int) bool {
	a, b := t.Shape[d]/Unit(t, d), u.Shape[e]/Unit(u, e)
	if a == b && Unit(t, d) != Unit(u, e) {
		return m.Even(axes, a)
	}
	return m.CutAlike(axes, a, b)
}
