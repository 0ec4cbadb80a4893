package sharding

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// Whole is the factor of a dimension that may not be split.
const Whole = -1

// Linearity determines the arguments through which a pending sum may pass.
type Linearity int

const (
	// NotLinear: pending sums are completed before the primitive runs.
	NotLinear Linearity = iota
	// LinearTogether: linear in all arguments together, like add. Sums pending over the
	// same axes in every argument stay pending.
	LinearTogether
	// LinearEach: linear in each argument separately, like mul. A sum pending in one
	// argument stays pending if the other arguments are whole over its axes.
	LinearEach
	// LinearFirst: linear in argument 0; the other arguments are plain
	// parameters.
	LinearFirst
)

// Factors relates the dimensions of a primitive's arguments and results: dimensions with
// the same factor number are split alike, like letters in an einsum. "ik,kj->ij" is In
// {0,1},{1,2}, Out {0,2}, Sum {1}.
type Factors struct {
	In, Out [][]int
	// Sum lists the factors summed over: splitting one of them leaves a pending sum in
	// every result.
	Sum []int
	// RowWise declares that each row of the results (dimension 0) depends only on the
	// same row of the arguments with that factor. Rows may then be ragged. Ragged rows
	// may also be summed over, because they are zero past the counts.
	RowWise bool
	Linear  Linearity
}

// factor is the placement of one factor according to the arguments so far.
type factor struct {
	axes   []string
	ragged *Ragged
	from   string // the argument that split it, for messages
}

// Place decides the placements from the factors. If the arguments may be moved, arguments
// fitting no placement as they are get gathered.
func (c *Context) Place(f Factors) (Decision, error) {
	fs := map[int]*factor{}
	for i, dims := range f.In {
		for d, n := range dims {
			axes := c.In[i].At(d)
			ragged := (*Ragged)(nil)
			if d == 0 {
				ragged = c.In[i].Ragged
			}
			if len(axes) == 0 && ragged == nil {
				continue
			}
			if n == Whole && c.moves && ragged == nil {
				continue
			}
			if n == Whole {
				return Decision{}, c.mustBeWhole(i, d, ragged)
			}
			if err := c.join(fs, n, i, d, axes, ragged); err != nil {
				return Decision{}, err
			}
		}
	}
	if err := c.distinct(f, fs); err != nil {
		return Decision{}, err
	}
	if err := c.raggedUse(f, fs); err != nil {
		return Decision{}, err
	}
	if err := c.cutAlike(f, fs); err != nil {
		return Decision{}, err
	}
	var dec Decision
	for _, dims := range f.In {
		dec.In = append(dec.In, build(dims, fs))
	}
	var pending []string
	for _, n := range f.Sum {
		if x := fs[n]; x != nil {
			pending = append(pending, x.axes...)
		}
	}
	through := c.through(f, fs)
	for i := range dec.In {
		if slices.Contains(through.args, i) {
			dec.In[i].Pending = through.axes
		}
	}
	pending = c.Mesh.ordered(append(pending, through.axes...))
	for _, dims := range f.Out {
		s := build(dims, fs)
		s.Pending = pending
		dec.Out = append(dec.Out, s)
	}
	return dec, nil
}

// rearranged decides the placements of the arguments from the placement of the only
// result. Dimensions of the result that must be whole are whole in the decision.
func (c *Context) rearranged(f Factors, out Spec) (Decision, error) {
	fs := map[int]*factor{}
	for d, n := range f.Out[0] {
		ragged := (*Ragged)(nil)
		if d == 0 {
			ragged = out.Ragged
		}
		if n == Whole && ragged != nil {
			return Decision{}, fmt.Errorf("the result is needed in expert order, and its rows depend on each other; dispatch it with ep_dispatch, or combine first")
		}
		if n != Whole && (len(out.At(d)) > 0 || ragged != nil) {
			fs[n] = &factor{out.At(d), ragged, fmt.Sprintf("dimension %d of the result", d)}
		}
	}
	if err := c.raggedUse(f, fs); err != nil {
		return Decision{}, err
	}
	if c.cutAlike(f, fs) != nil {
		maps.DeleteFunc(fs, func(_ int, x *factor) bool { return x.ragged == nil })
	}
	dec := Decision{Out: []Spec{build(f.Out[0], fs)}}
	for _, dims := range f.In {
		dec.In = append(dec.In, build(dims, fs))
	}
	return dec, nil
}

func build(dims []int, fs map[int]*factor) Spec {
	s := Spec{Dims: make([][]string, len(dims))}
	for d, n := range dims {
		if x := fs[n]; n != Whole && x != nil {
			s.Dims[d] = x.axes
			if d == 0 {
				s.Ragged = x.ragged
			}
		}
	}
	return s
}

// join merges the placement of factor n in dimension d of argument i. If one argument
// holds more of the dimension than another, it takes its part.
func (c *Context) join(fs map[int]*factor, n, i, d int, axes []string, ragged *Ragged) error {
	what := fmt.Sprintf("dimension %d of argument %d", d, i)
	x := fs[n]
	if x == nil {
		fs[n] = &factor{axes, ragged, what}
		return nil
	}
	if x.ragged != nil && ragged != nil && x.ragged.Routing == ragged.Routing && !slices.Equal(x.axes, axes) {
		return fmt.Errorf("%s and %s are in expert order over the axes %q and %q; bring the tokens to one placement with sharding_constraint before they are dispatched",
			x.from, what, strings.Join(x.axes, "."), strings.Join(axes, "."))
	}
	if x.ragged != nil && ragged != nil && x.ragged.Routing == ragged.Routing && !slices.Equal(x.ragged.Tokens, ragged.Tokens) {
		return fmt.Errorf("%s and %s are rows of tokens that are split over %q and over %q; bring the tokens to one placement with sharding_constraint before they are dispatched",
			x.from, what, strings.Join(x.ragged.Tokens, "."), strings.Join(ragged.Tokens, "."))
	}
	if x.ragged != nil && ragged != nil && !x.ragged.same(ragged) {
		return fmt.Errorf("%s and %s are in the order of different routings; combine first", x.from, what)
	}
	if (x.ragged == nil) != (ragged == nil) {
		return fmt.Errorf("%s and %s: one is in expert order and the other is not; dispatch it with ep_dispatch, or combine first", x.from, what)
	}
	short, long := x.axes, axes
	if len(short) > len(long) {
		short, long = long, short
	}
	if !slices.Equal(short, long[:len(short)]) {
		if c.moves {
			return nil
		}
		return fmt.Errorf("%s is split over %s and %s over %s; bring one to the other with sharding_constraint",
			x.from, strings.Join(x.axes, "."), what, strings.Join(axes, "."))
	}
	x.axes = long
	return nil
}

func (c *Context) mustBeWhole(i, d int, ragged *Ragged) error {
	if ragged != nil && d == 0 {
		return fmt.Errorf("argument %d is in expert order and its number of rows is known only to the run; use row-wise primitives and grouped_matmul, or ep_combine first", i)
	}
	return &splitError{i, c.In[i].At(d), fmt.Sprintf("dimension %d of argument %d is split over %s and must be whole here; gather it with sharding_constraint",
		d, i, strings.Join(c.In[i].At(d), "."))}
}

// distinct returns an error if an axis would split two different factors. If the
// arguments may be moved, the factor with fewer bytes is made whole over the axis.
func (c *Context) distinct(f Factors, fs map[int]*factor) error {
	by := map[string]int{}
	for _, n := range slices.Sorted(maps.Keys(fs)) {
		for i := 0; i < len(fs[n].axes); i++ {
			a := AxisOf(fs[n].axes[i])
			o, ok := by[a]
			if !ok || !Over(fs[o].axes, a) {
				by[a] = n
				continue
			}
			drop := n
			if fs[n].ragged != nil || fs[o].ragged == nil && c.split(f, o, a) < c.split(f, n, a) {
				drop, by[a] = o, n
			}
			x := fs[drop]
			if !c.moves || x.ragged != nil {
				return fmt.Errorf("%s and %s are both split over %s; gather one of them with sharding_constraint", fs[o].from, fs[n].from, a)
			}
			x.axes = x.axes[:slices.IndexFunc(x.axes, func(e string) bool { return AxisOf(e) == a })]
		}
	}
	return nil
}

// split returns the bytes of the arguments with factor n split by axis a.
func (c *Context) split(f Factors, n int, a string) (bytes int64) {
	for i, dims := range f.In {
		if d := slices.Index(dims, n); d >= 0 && Over(c.In[i].At(d), a) {
			bytes += c.Type(i).Bytes()
		}
	}
	return bytes
}

// cutAlike returns an error if the parts of a split factor are not the same share of
// every dimension with the factor: if 7 rows of 8 are one dimension of 56, two ranks'
// parts of the rows are 4 and 3 rows, and their parts of the elements 28 each. If the
// arguments may be moved, the factor is made whole.
func (c *Context) cutAlike(f Factors, fs map[int]*factor) error {
	type place struct {
		what string
		t    graph.Type
		d    int
	}
	first := map[int]place{}
	look := func(what string, values []*graph.Value, lists [][]int) error {
		for i, dims := range lists {
			for d, n := range dims {
				x := fs[n]
				if n == Whole || x == nil || x.ragged != nil {
					continue
				}
				p := place{fmt.Sprintf("dimension %d of %s %d, %s,", d, what, i, values[i].Type), values[i].Type, d}
				o, ok := first[n]
				if !ok {
					first[n] = p
				} else if c.moves && !c.Mesh.cutAlike(x.axes, o.t, o.d, p.t, p.d) {
					x.axes = nil
				} else if !c.Mesh.cutAlike(x.axes, o.t, o.d, p.t, p.d) {
					return &splitError{c.holder(x.axes), x.axes, fmt.Sprintf("%s and %s do not divide alike over the %d ranks of %s%s; gather it with sharding_constraint, or split over ranks whose number divides both",
						o.what, p.what, c.Mesh.Parts(x.axes), strings.Join(x.axes, "."), blocks(o.t, p.t))}
				}
			}
		}
		return nil
	}
	if err := look("argument", c.Eqn.In, f.In); err != nil {
		return err
	}
	return look("result", c.Eqn.Out, f.Out)
}

// holder returns the first argument split by all the axes.
func (c *Context) holder(axes []string) int {
	return slices.IndexFunc(c.In, func(s Spec) bool { return holds(s, axes) })
}

// holds reports whether all the axes split a value.
func holds(s Spec, axes []string) bool {
	split := s.Axes()
	return !slices.ContainsFunc(axes, func(a string) bool { return !slices.Contains(split, AxisOf(a)) })
}

// blocks explains in a message that types in blocks are cut between blocks.
func blocks(types ...graph.Type) string {
	for _, t := range types {
		if n, _ := t.DType.Block(); n > 1 {
			return fmt.Sprintf(", as blocks of %s are %d elements", t.DType, n)
		}
	}
	return ""
}

func (c *Context) raggedUse(f Factors, fs map[int]*factor) error {
	for _, n := range slices.Sorted(maps.Keys(fs)) {
		x := fs[n]
		if x.ragged == nil {
			continue
		}
		// Rows are ragged in dimension 0 only: no argument may have this factor
		// elsewhere, and every result has it there unless it is summed away.
		first := func(dims []int) bool { return !slices.Contains(dims[min(1, len(dims)):], n) }
		rows := func(dims []int) bool { return len(dims) > 0 && dims[0] == n && first(dims) }
		ok := !slices.ContainsFunc(f.In, func(dims []int) bool { return !first(dims) })
		if !slices.Contains(f.Sum, n) {
			ok = ok && f.RowWise && !slices.ContainsFunc(f.Out, func(dims []int) bool { return !rows(dims) })
		}
		if !ok {
			return fmt.Errorf("%s is in expert order and its number of rows is known only to the run; use row-wise primitives and grouped_matmul, or ep_combine first", x.from)
		}
	}
	return nil
}

type passing struct {
	args []int
	axes []string
}

// through returns the arguments with pending sums that stay pending.
func (c *Context) through(f Factors, fs map[int]*factor) passing {
	var used []string
	for _, x := range fs {
		used = append(used, x.axes...)
	}
	free := func(axes []string) bool {
		return len(axes) > 0 && !slices.ContainsFunc(axes, func(a string) bool { return Over(used, a) })
	}
	switch f.Linear {
	case LinearTogether:
		if len(c.In) == 0 {
			return passing{}
		}
		p := passing{axes: c.In[0].Pending}
		for i, s := range c.In {
			if !slices.Equal(s.Pending, p.axes) {
				return passing{}
			}
			p.args = append(p.args, i)
		}
		if free(p.axes) {
			return p
		}
	case LinearEach:
		var p passing
		for i, s := range c.In {
			if len(s.Pending) > 0 {
				if p.args != nil {
					return passing{}
				}
				p = passing{[]int{i}, s.Pending}
			}
		}
		if free(p.axes) {
			return p
		}
	case LinearFirst:
		if len(c.In) > 0 && free(c.In[0].Pending) {
			for _, s := range c.In[1:] {
				if len(s.Pending) > 0 {
					return passing{}
				}
			}
			return passing{[]int{0}, c.In[0].Pending}
		}
	}
	return passing{}
}

// Elementwise returns the factors of a primitive with the shape of t for all arguments
// and results.
func Elementwise(t graph.Type, args, results int, l Linearity) Factors {
	dims := make([]int, t.Rank())
	for i := range dims {
		dims[i] = i
	}
	f := Factors{RowWise: true, Linear: l}
	for range args {
		f.In = append(f.In, dims)
	}
	for range results {
		f.Out = append(f.Out, dims)
	}
	return f
}

// Rows returns the factors of a primitive that works on whole rows along the
// last dimensions. Arguments and results share their first lead dimensions; the
// other dimensions of each must be whole. args and results are the numbers of
// dimensions; -n means a parameter of n dimensions, which must be whole.
func Rows(lead int, args, results []int) Factors {
	f := Factors{RowWise: lead > 0}
	dims := func(n int) []int {
		d := whole(max(n, 0))
		for i := range min(lead, len(d)) {
			d[i] = i
		}
		return d
	}
	for _, n := range args {
		if n < 0 { // a parameter of -n dimensions, whole
			f.In = append(f.In, whole(-n))
			continue
		}
		f.In = append(f.In, dims(n))
	}
	for _, n := range results {
		f.Out = append(f.Out, dims(n))
	}
	return f
}
