package runtime

import (
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/array"
)

// Loan is memory of the caller, such as a mapped file, that already holds parts of an
// array. It is read and never written, and must not change before Back is called.
type Loan struct {
	// Mem returns the memory of a part, laid out like Array.Bytes, or nil if the part is
	// not contiguous in memory. Its Part argument has no memory.
	Mem func(Part) []byte
	// Slabs, if not nil, is called for parts without memory from Mem. It returns the
	// memory of each index of dimension 0, such as the matrices of experts stored among
	// others, or nil if an index is not contiguous. It is called only if the plan's
	// kernels read the input in this way; see array.InSlabs.
	Slabs func(Part) [][]byte
	// Fill writes a part that is not lent, as in PutParts.
	Fill func(Part) error
	// Back, if not nil, is called once, when the memory is no longer read: when the Array
	// is recycled, some time after it becomes unreachable, or before Lend returns if no
	// part is lent.
	Back func()
}

// lentAt is the required alignment of lent memory, the alignment of array.New: kernels
// read elements of up to this many bytes.
const lentAt = 8

// Lend is PutParts for parts that are already in the caller's memory: an array in a
// mapped file takes no memory of the process's own, and opening it reads nothing. Ranks
// that hold the same part share it. A part is written to memory of the session, as by
// PutParts, if l.Mem and l.Slabs return nil, if the memory is not aligned to 8 bytes, or
// if the session has a device that cannot see the memory. Array.Lent returns the number
// of lent bytes.
//
// A session accepts an array lent in slabs only if its plan reads the input by the
// indices of dimension 0. The programs of one model agree on these inputs.
//
// A step with the Array as a donated input fails before computing anything, because it
// would write to the memory. No session reuses the memory for other arrays.
func (s *Session) Lend(name string, l Loan) (_ *Array, err error) {
	back := func() {}
	if l.Back != nil {
		back = sync.OnceFunc(l.Back)
	}
	var a *Array
	defer func() {
		if a == nil || a.loan == nil {
			back()
		}
	}()
	p, err := s.input(name)
	if err != nil {
		return nil, err
	}
	if l.Mem == nil || l.Fill == nil {
		return nil, fmt.Errorf("runtime: lend %s: Mem or Fill is nil, want both: parts that are not lent are filled", s.named(p))
	}
	var seen lentBlocks
	if s.heap != nil {
		seen = lentBlocks{}
		l.Mem = seen.shown(s.heap, l.Mem)
		give := back
		back = func() {
			if seen.free() {
				give()
			}
		}
	}
	if !s.slabs[s.inputs[name]] {
		l.Slabs = nil
	}
	if a, err = s.place(p, &l); err != nil {
		return nil, err
	}
	if a.borrowed > 0 {
		for i := range a.parts {
			if a.parts[i].HasSlabs() {
				continue
			}
			if b := seen[unsafe.SliceData(a.parts[i].Bytes())]; b != nil && a.parts[i].from == nil {
				a.parts[i].from = b
			}
		}
		a.loan = &loan{back: back}
		a.loan.dropped = goruntime.AddCleanup(a.loan, func(back func()) { back() }, back)
	}
	return a, nil
}

// Takes returns the number of bytes that the Array of Lend would have in this process: in
// lent memory, shared by ranks holding the same part, and in memory of the session's own.
// It calls neither l.Fill nor l.Back. If a device refuses to see lent memory, Lend takes
// more of its own.
func (s *Session) Takes(name string, l Loan) (lent, own int64, err error) {
	p, err := s.input(name)
	if err != nil {
		return 0, 0, err
	}
	if !s.slabs[s.inputs[name]] {
		l.Slabs = nil
	}
	shared := map[int]bool{}
	for _, r := range s.local {
		start, box := p.Spec.Box(s.plan.Mesh, r, p.Type)
		ok := false
		if l.Mem != nil && box.Len() > 0 {
			if _, ok, err = l.borrow(Part{r, p.Type, start, array.Outline(box)}); err != nil {
				return 0, 0, fmt.Errorf("runtime: %s: %w", s.named(p), err)
			}
		}
		n := s.plan.Mesh.Index(r, p.Spec.Axes())
		switch {
		case !ok:
			own += box.Bytes()
		case !shared[n]:
			shared[n] = true
			lent += box.Bytes()
		}
	}
	return lent, own, nil
}

// Lent returns the number of lent bytes in the parts of this process's ranks. Memory
// shared by ranks counts for each of them.
func (d *Array) Lent() int64 { return d.borrowed }

// lentBlocks are the lent parts visible to a device, by their address.
type lentBlocks map[*byte]*block

// shown returns mem, made visible to the device, as a Loan.Mem.
func (l lentBlocks) shown(h *heap, mem func(Part) []byte) func(Part) []byte {
	return func(p Part) []byte {
		b := mem(p)
		if len(b) == 0 || l[unsafe.SliceData(b)] != nil {
			return b
		}
		free, err := h.device.Adopt(b)
		if err != nil {
			return nil // the part is filled
		}
		l[unsafe.SliceData(b)] = &block{mem: b, heap: h, give: free}
		return b
	}
}

// free withdraws the memory from the device, and reports whether it may be released: a
// device that has failed may use it for ever.
func (l lentBlocks) free() bool {
	ok := true
	for _, b := range l {
		if b.kept.Load() {
			ok = false
			continue
		}
		b.free()
	}
	return ok
}

// loan is referenced by the Arrays over lent memory, copies of them included.
type loan struct {
	back    func()
	dropped goruntime.Cleanup
}

// end returns the memory to its lender.
func (l *loan) end() {
	l.dropped.Stop()
	l.back()
}

// borrow returns the part in lent memory. ok is false if it is not lent, or not aligned
// for kernels. It is an error if the memory and the part differ in size.
func (l *Loan) borrow(p Part) (_ Part, ok bool, err error) {
	if b := l.Mem(p); b != nil && readable(b) {
		if want := p.Type.Bytes(); int64(len(b)) != want {
			return p, false, fmt.Errorf("%s: %d bytes are lent, want %d", p, len(b), want)
		}
		p.Array = array.Over(p.Type, b)
		return p, true, sound(p)
	}
	if l.Slabs == nil {
		return p, false, nil
	}
	slabs := l.Slabs(p)
	if slabs == nil || slices.ContainsFunc(slabs, func(b []byte) bool { return !readable(b) }) {
		return p, false, nil
	}
	if len(slabs) != p.Type.Shape[0] {
		return p, false, fmt.Errorf("%s: %d slabs are lent, want %d", p, len(slabs), p.Type.Shape[0])
	}
	for i, b := range slabs {
		if want := p.Type.Bytes() / int64(len(slabs)); int64(len(b)) != want {
			return p, false, fmt.Errorf("%s: slab %d of %d bytes is lent, want %d", p, i, len(b), want)
		}
	}
	p.Array = array.InSlabs(p.Type, slabs)
	return p, true, nil
}

// readable reports whether the memory is aligned for the elements that kernels read.
func readable(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%lentAt == 0 }
