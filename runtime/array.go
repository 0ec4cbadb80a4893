package runtime

import (
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// Array is a global array whose parts lie on ranks, as its placement says. The parts
// stay there between steps; Get copies the array to the caller. An Array whose memory
// was donated to a step is spent: it can no longer be used.
type Array struct {
	Type  graph.Type
	Spec  sharding.Spec
	mesh  sharding.Mesh
	ranks []int
	parts []piece // one per entry of ranks
	as    contents
	// lent is set once Part has given the caller memory that the caller may write to.
	lent  atomic.Bool
	spent string // what became of the memory, and the remedy; "" while usable
}

// contents identifies the elements of an array: equal contents are equal elements. Every
// Put and every result of a step has contents of its own, whatever memory it lies in.
// The zero contents are unknown and equal to no others.
type contents struct {
	of *identity // the Put or the session that made the elements
	n  uint64    // a session numbers its results
}

// identity is a unique address: it is not reused while somebody refers to it, as memory
// is.
type identity struct{ _ byte }

// next returns the contents that follow c, of the same owner. If c is zero, the owner is
// new.
func (c contents) next() contents {
	if c.of == nil {
		c.of = new(identity)
	}
	c.n++
	return c
}

// contents returns what identifies the elements. It is zero if the caller may have
// changed them.
func (d *Array) contents() contents {
	if d.lent.Load() {
		return contents{}
	}
	return d.as
}

// Put copies a, split as spec says, to the given ranks of the mesh. These are the ranks
// that live in this process. Of an array that is to be a pending sum, the first rank along
// the pending axes gets its part, and the others get zeros.
func Put(a array.Array, m sharding.Mesh, spec sharding.Spec, ranks []int) (*Array, error) {
	return put(a, m, spec, ranks, func(_ int, t graph.Type) (piece, error) { return piece{array.New(t), nil}, nil })
}

// put is Put with memory from alloc, which returns the part of the i-th rank.
func put(a array.Array, m sharding.Mesh, spec sharding.Spec, ranks []int, alloc func(i int, t graph.Type) (piece, error)) (*Array, error) {
	if spec.Ragged != nil {
		return nil, fmt.Errorf("runtime: put %s: arrays are whole, split or pending, not ragged", spec.Format(a.Type))
	}
	spec, err := spec.Check(m, a.Type)
	if err != nil {
		return nil, fmt.Errorf("runtime: put: %w", err)
	}
	d := &Array{Type: a.Type, Spec: spec, mesh: m, ranks: ranks, as: contents{}.next()}
	for i, r := range ranks {
		start, t := spec.Box(m, r, a.Type)
		part, err := alloc(i, t)
		if err != nil {
			return nil, err
		}
		if m.Index(r, spec.Pending) > 0 {
			clear(part.Bytes())
		} else {
			copyPart(part.Array, a, start, true)
		}
		d.parts = append(d.parts, part)
	}
	return d, nil
}

// Get returns a copy of the global array. If several ranks hold the same part, the
// lowest rank's is taken. Get returns an error if no rank of this process holds some
// part (see Session.Get), and if the array is a pending sum, which only a program adds up.
func (d *Array) Get() (array.Array, error) {
	if d == nil {
		return array.Array{}, errors.New("runtime: get: no array, want one that a step of a session has returned")
	}
	if d.spent != "" {
		return array.Array{}, fmt.Errorf("runtime: get %s: its memory was %s", d.Type, d.spent)
	}
	if err := d.pending(); err != nil {
		return array.Array{}, err
	}
	out := array.New(d.Type)
	have := map[int]bool{}
	axes := d.Spec.Axes()
	for i, r := range d.ranks {
		n := d.mesh.Index(r, axes)
		if have[n] {
			continue
		}
		have[n] = true
		start, _ := d.Spec.Box(d.mesh, r, d.Type)
		copyPart(d.parts[i].Array, out, start, false)
	}
	goruntime.KeepAlive(d)
	if want := d.mesh.Parts(axes); len(have) < want {
		return array.Array{}, fmt.Errorf("runtime: get %s: this process holds %d of %d parts; Session.Get brings those of others, too", d.Spec.Format(d.Type), len(have), want)
	}
	return out, nil
}

// pending returns an error if the array is a pending sum.
func (d *Array) pending() error {
	if len(d.Spec.Pending) == 0 {
		return nil
	}
	return fmt.Errorf("runtime: get %s: ranks hold summands that are not added up over %s; give the array to a program with this placement that returns it, which adds it up",
		d.Spec.Format(d.Type), strings.Join(d.Spec.Pending, "."))
}

// Part returns what the i-th rank of this process holds, without copying. It is valid
// until the Array is donated or recycled. In a session with a device it is also valid
// only as long as the caller refers to the Array: the Array owns that memory, and Go's
// collector does not know about it (see runtime.KeepAlive). The caller may write to the
// part between steps; kernels then keep no prepared copies of this Array from one step
// to the next.
func (d *Array) Part(i int) array.Array {
	d.lent.Store(true)
	return d.parts[i].Array
}

// copyPart copies between a part and the box of the whole array that begins at start:
// into the part if in is true, out of the part otherwise.
func copyPart(part, whole array.Array, start []int, in bool) {
	p, w := part.Bytes(), whole.Bytes()
	parts, size := part.Type.Units()
	wholes, _ := whole.Type.Units()
	start = inUnits(start, part.Type)
	var walk func(d, po, wo int)
	walk = func(d, po, wo int) {
		if d >= len(start)-1 {
			n := size
			if d < len(start) {
				n *= parts[d]
				wo += start[d]
			}
			if in {
				copy(p[po*size:po*size+n], w[wo*size:])
			} else {
				copy(w[wo*size:wo*size+n], p[po*size:])
			}
			return
		}
		for i := range parts[d] {
			walk(d+1, (po+i)*parts[d+1], (wo+start[d]+i)*wholes[d+1])
		}
	}
	if part.Type.Len() > 0 {
		walk(0, 0, 0)
	}
}

// inUnits returns start, which counts elements, in units of t.Units.
func inUnits(start []int, t graph.Type) []int {
	n, _ := t.DType.Block()
	if n == 1 || len(start) == 0 {
		return start
	}
	start = slices.Clone(start)
	start[len(start)-1] /= n
	return start
}
