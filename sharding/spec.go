package sharding

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
)

// Spec is the placement of one value on a mesh.
type Spec struct {
	// Dims holds, per dimension, the mesh axes splitting it as evenly as possible, or by
	// their ranges (see Mesh.Cut and Mesh.Evenly). The first axis is the major one. A dimension
	// with a missing or empty entry is whole on every rank. An axis occurs at most once in
	// a Spec.
	Dims [][]string
	// Ragged, if not nil, declares that dimension 0 is rows in expert order. The number
	// of rows on a rank is known only when the program runs.
	Ragged *Ragged
	// Pending lists, in mesh order, the axes along which the ranks' parts must
	// still be added up to give the value.
	Pending []string
}

// Ragged describes rows in expert order, as produced by ep_dispatch.
type Ragged struct {
	// Routing is the value determining the order of the rows.
	Routing *graph.Value
	// Tokens lists the axes splitting the rows' tokens. Rows are split over these axes,
	// and over the axis of the experts even if every rank along it has the same tokens.
	Tokens []string
	// Rows is the capacity of one rank in rows.
	Rows int
	// Layer is the dispatching primitive. Rows with different layers or
	// routings cannot be combined.
	Layer graph.Primitive
}

func (r *Ragged) same(o *Ragged) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.Routing == o.Routing && r.Rows == o.Rows && slices.Equal(r.Tokens, o.Tokens)
}

// Split returns the Spec that splits dimension i over the axes named in
// dims[i]; "dp.ep" names two axes, "" or "_" leaves the dimension whole. An entry in braces, such
// as "{+dp+ep}", stands for no dimension: it names the axes along which sums are pending.
func Split(dims ...string) Spec {
	var s Spec
	for _, d := range dims {
		if sums, ok := strings.CutPrefix(d, "{+"); ok {
			s.Pending = append(s.Pending, strings.Split(strings.TrimSuffix(sums, "}"), "+")...)
			continue
		}
		var axes []string
		if d != "" && d != "_" {
			axes = strings.Split(d, ".")
		}
		s.Dims = append(s.Dims, axes)
	}
	return s
}

// ParseSpec reads a Spec in the syntax of -place, such as "dp.ep" or "_,tp": one entry
// per dimension, separated by commas; axes within an entry separated by dots; "_" for a
// whole dimension. Missing entries are whole. "ep:even" is the axis ep without its ranges
// (see Mesh.Evenly). Axes with pending sums are in braces at the end, as in "_,tp{+dp+ep}".
func ParseSpec(s string) (Spec, error) {
	var dims []string
	text, sums, pending := strings.Cut(s, "{")
	if pending {
		sums = strings.TrimSpace(sums)
		axes, closed := strings.CutSuffix(sums, "}")
		axes, plus := strings.CutPrefix(axes, "+")
		if !closed || !plus {
			return Spec{}, fmt.Errorf("sharding: placement %s: write the axes of pending sums at the end, such as _,tp{+dp+ep}", quoted.Text(s))
		}
		for _, a := range strings.Split(axes, "+") {
			if !axisName(a) {
				return Spec{}, fmt.Errorf("sharding: placement %s: %s is no axis name; write the axes of pending sums as {+dp+ep}", quoted.Text(s), quoted.Text(a))
			}
		}
		sums = "{+" + axes + "}"
	}
	for _, d := range strings.Split(text, ",") {
		d = strings.TrimSpace(d)
		if d != "" && d != "_" {
			for _, a := range strings.Split(d, ".") {
				if !axisName(AxisOf(a)) {
					return Spec{}, fmt.Errorf("sharding: placement %s: %s is no axis name; write one entry per dimension, such as dp.ep,_", quoted.Text(s), quoted.Text(a))
				}
			}
		}
		dims = append(dims, d)
	}
	if pending {
		dims = append(dims, sums)
	}
	return Split(dims...), nil
}

// At returns the axes splitting dimension i.
func (s Spec) At(i int) []string {
	if i < len(s.Dims) {
		return s.Dims[i]
	}
	return nil
}

// String prints the Spec in the form of ParseSpec.
func (s Spec) String() string {
	dims := make([]string, len(s.Dims))
	for i, a := range s.Dims {
		dims[i] = "_"
		if len(a) > 0 {
			dims[i] = strings.Join(a, ".")
		}
	}
	return strings.Join(dims, ",") + s.sums()
}

// sums prints the axes along which sums are pending, such as {+dp+ep}; "" if there are none.
func (s Spec) sums() string {
	if len(s.Pending) == 0 {
		return ""
	}
	return "{+" + strings.Join(s.Pending, "+") + "}"
}

// Format prints the type with its placement: f32[16@dp.ep,8], f32[8]{+dp} for a
// pending sum, f32[64@ep~,8] for ragged rows.
func (s Spec) Format(t graph.Type) string {
	var b strings.Builder
	b.WriteString(t.DType.String())
	b.WriteByte('[')
	for i, n := range t.Shape {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n))
		if a := s.At(i); len(a) > 0 {
			b.WriteByte('@')
			b.WriteString(strings.Join(a, "."))
		}
		if i == 0 && s.Ragged != nil {
			b.WriteByte('~')
		}
	}
	b.WriteByte(']')
	b.WriteString(s.sums())
	return b.String()
}

// Equal reports whether both specs place a value of that rank alike.
func (s Spec) Equal(o Spec) bool {
	for i := range max(len(s.Dims), len(o.Dims)) {
		if !slices.Equal(s.At(i), o.At(i)) {
			return false
		}
	}
	return s.Ragged.same(o.Ragged) && slices.Equal(s.Pending, o.Pending)
}

// Whole reports whether every rank holds all of the value.
func (s Spec) Whole() bool {
	for _, d := range s.Dims {
		if len(d) > 0 {
			return false
		}
	}
	return s.Ragged == nil && len(s.Pending) == 0
}

// Axes returns every axis splitting a dimension.
func (s Spec) Axes() []string {
	var out []string
	for _, d := range s.Dims {
		for _, a := range d {
			out = append(out, AxisOf(a))
		}
	}
	return out
}

// Varies returns every axis along which ranks hold different data: the axes splitting a
// dimension, and the axes along which each rank holds a summand.
func (s Spec) Varies() []string { return append(s.Axes(), s.Pending...) }

// Resolved returns s without pending sums.
func (s Spec) Resolved() Spec {
	s.Pending = nil
	return s
}

// entries returns an error if s splits a dimension that t does not have.
func (s Spec) entries(t graph.Type) error {
	for d := t.Rank(); d < len(s.Dims); d++ {
		if len(s.Dims[d]) > 0 {
			return fmt.Errorf("the placement %s has %d entries for %s, want at most %d", s, len(s.Dims), t, t.Rank())
		}
	}
	return nil
}

// named returns an error if s names an axis that no mesh can have.
func (s Spec) named() error {
	for _, a := range s.Varies() {
		switch {
		case axisName(a):
		case strings.Contains(a, ","):
			return fmt.Errorf("the placement %s: %s is no axis name; give Split one argument per dimension, as in Split(\"dp\", \"ep\"), and dots between the axes of one, as in Split(\"dp.ep\")", s, quoted.Text(a))
		default:
			return fmt.Errorf("the placement %s: %s is no axis name, want a letter and then letters or digits", s, quoted.Text(a))
		}
	}
	return nil
}

// Check returns s normalised: one entry per dimension, and no axes of size 1. It is an
// error if s cannot place a value of type t on m.
func (s Spec) Check(m Mesh, t graph.Type) (Spec, error) {
	if err := s.entries(t); err != nil {
		return s, err
	}
	out := Spec{Dims: make([][]string, t.Rank()), Ragged: s.Ragged}
	seen := map[string]bool{}
	for i := range out.Dims {
		for _, a := range s.At(i) {
			n := m.Size(a)
			if !m.has(a) {
				return s, fmt.Errorf("the mesh %q has no axis %s; split over an axis that it has, or add %s=size to it", m, AxisOf(a), AxisOf(a))
			}
			if axis := AxisOf(a); seen[axis] {
				return s, fmt.Errorf("the placement %s uses axis %s twice, want it once", s, axis)
			}
			seen[AxisOf(a)] = true
			if n > 1 {
				out.Dims[i] = append(out.Dims[i], m.canonical(a))
			}
		}
	}
	for _, a := range s.Pending {
		if !m.has(a) {
			return s, fmt.Errorf("the mesh %q has no axis %s", m, a)
		}
		if seen[a] {
			return s, fmt.Errorf("the placement %s uses axis %s twice, want it once", s.Format(t), a)
		}
		seen[a] = true
	}
	for _, a := range m.ordered(s.Pending) {
		if m.Size(a) > 1 {
			out.Pending = append(out.Pending, a)
		}
	}
	if d := t.DType; len(out.Pending) > 0 && !d.IsFloat() && !d.IsInt() {
		return s, fmt.Errorf("the placement %s: arrays of %s have no pending sums; use a float or integer type", out.Format(t), d)
	}
	return out, nil
}
