package runtime

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// Part is one rank's part of an array: the box that begins at Start and has the shape of
// Array.
type Part struct {
	Rank  int
	Whole graph.Type // of the array
	Start []int      // the box's start, in elements of every dimension of Whole
	array.Array
}

// String names the part: its rank and its box, such as rank 2, f32[4:8,0:16] of f32[8,16].
func (p Part) String() string {
	return fmt.Sprintf("rank %d, %s%s of %s", p.Rank, p.Type.DType, p.Box(), p.Whole)
}

// Box returns the box as text, such as [4:8,0:16].
func (p Part) Box() string {
	box := "["
	for d, at := range p.Start {
		if d > 0 {
			box += ","
		}
		box += fmt.Sprintf("%d:%d", at, at+p.Type.Shape[d])
	}
	return box + "]"
}

// Mesh returns the mesh over whose ranks the array is placed.
func (d *Array) Mesh() sharding.Mesh { return d.mesh }

// Parts returns the parts held by the ranks of this process, in the order of
// Session.Local, without copying except for parts lent in slabs. Ranks that hold the same
// box each have their own copy of it. The parts are valid until the Array is donated or
// recycled; it is an error if it already was. In a session with a device they are also
// valid only while the caller refers to the Array: the Array owns that memory, and Go's
// collector does not know about it (see runtime.KeepAlive). The caller may write to the
// parts between steps, but not to memory lent to the Array. After Parts, kernels keep no
// packed copies of this Array between steps.
func (d *Array) Parts() ([]Part, error) {
	if d == nil {
		return nil, errors.New("runtime: parts: no array, want one that a step of a session has returned")
	}
	if d.spent != "" {
		return nil, fmt.Errorf("runtime: parts of %s: the memory was %s", d.Type, d.spent)
	}
	if d.loan == nil {
		d.shown.Store(true)
	}
	d.disclaim()
	parts := make([]Part, len(d.ranks))
	for i, r := range d.ranks {
		start, _ := d.Spec.Box(d.mesh, r, d.Type)
		parts[i] = Part{r, d.Type, start, d.parts[i].Dense()}
	}
	return parts, nil
}

// Put copies a, split according to spec, to the given ranks of the mesh, which are the
// ranks in this process. It reads only their parts of a. If the array is to be a pending
// sum, the first rank along the pending axes gets its part, and the others get zeros.
func Put(a array.Array, m sharding.Mesh, spec sharding.Spec, ranks []int) (*Array, error) {
	if a.IsOutline() {
		return nil, fmt.Errorf("runtime: put %s: the array is an outline, which has no memory; want one with elements", a.Type)
	}
	d, err := put(a.Type, m, spec, ranks, fresh, &Loan{Fill: copyFrom(a)})
	if err != nil {
		return nil, fmt.Errorf("runtime: put %w", err)
	}
	return d, nil
}

// fresh returns memory of Go's heap.
func fresh(_ int, t graph.Type) (piece, error) { return piece{lasting(t), nil}, nil }

// copyFrom returns a fill copying from the whole array.
func copyFrom(a array.Array) func(Part) error {
	return func(p Part) error {
		array.CopyBox(p.Array, nil, a, p.Start, p.Type.Shape)
		return nil
	}
}

// ReadAt returns a fill for Session.PutParts that reads a part from r. The whole array is
// stored in r in row-major order from byte offset at, its elements as in Array.Bytes. The
// fill reads only the bytes of the part, each contiguous run with one call.
func ReadAt(r io.ReaderAt, at int64) func(Part) error {
	return func(p Part) error {
		whole, size := p.Whole.Units()
		shape, _ := p.Type.Units()
		mem := p.Bytes()
		return array.Runs(shape, shape, nil, whole, array.InUnits(p.Start, p.Type), func(to, from, n int) error {
			off := at + int64(from)*int64(size)
			got, err := r.ReadAt(mem[to*size:(to+n)*size], off)
			switch {
			case got == n*size:
				return nil
			case err == nil || errors.Is(err, io.EOF):
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read %d bytes at %d: %w", n*size, off, err)
		})
	}
}

// put makes an array. l.Mem, if not nil, lends parts. For other parts alloc returns
// memory for the i-th rank, and l.Fill writes it.
func put(t graph.Type, m sharding.Mesh, spec sharding.Spec, ranks []int, alloc func(i int, t graph.Type) (piece, error), l *Loan) (*Array, error) {
	if spec.Ragged != nil {
		return nil, fmt.Errorf("%s: arrays are whole, split or pending, not ragged", spec.Format(t))
	}
	spec, err := spec.Check(m, t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	d := &Array{Type: t, Spec: spec, mesh: m, ranks: ranks, as: contents{}.next()}
	filled := map[int]array.Array{} // by the number of the part
	for i, r := range ranks {
		start, box := spec.Box(m, r, t)
		pending := m.Index(r, spec.Pending) > 0
		if l.Mem != nil && box.Len() > 0 && !pending {
			p, ok, err := l.borrow(Part{r, t, start, array.Outline(box)})
			if err != nil {
				return nil, err
			}
			if ok {
				d.parts = append(d.parts, piece{p.Array, nil})
				d.borrowed += p.Type.Bytes()
				continue
			}
		}
		x, err := alloc(i, box)
		if err != nil {
			return nil, err
		}
		d.parts = append(d.parts, x)
		if box.Len() == 0 {
			continue
		}
		if pending {
			clear(x.Bytes())
			continue
		}
		n := m.Index(r, spec.Axes())
		if same, ok := filled[n]; ok {
			copy(x.Bytes(), same.Bytes())
			continue
		}
		filled[n] = x.Array
		p := Part{r, t, start, x.Array}
		if err := l.Fill(p); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		if err := sound(p); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// sound returns an error if a bool is neither false nor true.
func sound(p Part) error {
	if p.Type.DType != graph.Bool {
		return nil
	}
	if i := slices.IndexFunc(p.Bytes(), func(b byte) bool { return b > 1 }); i >= 0 {
		return fmt.Errorf("%s: element %d of the part is byte %d, want 0 or 1", p, i, p.Bytes()[i])
	}
	return nil
}
