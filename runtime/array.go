package runtime

import (
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync/atomic"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// Array is a global array stored in parts on its ranks, according to its placement. The
// parts stay there between steps; Get copies the array to the caller. An Array is spent
// once its memory has been donated to a step: it can no longer be used.
type Array struct {
	Type  graph.Type
	Spec  sharding.Spec
	mesh  sharding.Mesh
	ranks []int
	parts []piece // one per entry of ranks
	as    contents
	of    string // the plan of the session that made the array; "" if none did
	// shown is set once Parts has given the caller memory that the caller may write to.
	shown atomic.Bool
	// loan is not nil if borrowed bytes of the parts lie in lent memory.
	loan     *loan
	borrowed int64
	tie      *tie   // nil if no session claims the memory
	spent    string // the fate of the memory, and the remedy; "" while usable
}

// contents identifies the elements of an array: equal contents mean equal elements. Every
// Put and every result of a step has contents of its own, independent of its memory. The
// zero contents are unknown and equal to no others.
type contents struct {
	of *identity // the Put or the session that made the elements
	n  uint64    // number of the result within its session
}

// identity is a unique address. Unlike memory, it is not reused while referenced.
type identity struct{ _ byte }

// next returns the contents following c, of the same owner. If c is zero, the owner is
// new.
func (c contents) next() contents {
	if c.of == nil {
		c.of = new(identity)
	}
	c.n++
	return c
}

// contents identifies the elements. It is zero if the caller may have changed them.
func (d *Array) contents() contents {
	if d.shown.Load() {
		return contents{}
	}
	return d.as
}

// Get returns a copy of the global array. Of several ranks with the same part it reads
// the lowest. Get returns an error if no rank of this process holds some part (see
// Session.Get), and if the array is a pending sum, which only a program can sum.
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
		array.CopyBox(out, start, d.parts[i].Dense(), nil, d.parts[i].Type.Shape)
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
