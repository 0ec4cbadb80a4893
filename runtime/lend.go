package runtime

import (
	"fmt"
	goruntime "runtime"
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/array"
)

// Loan is memory of the caller's that holds parts of an array already, such as that of a mapped
// file. It is read and never written, and must not change before Back is called.
type Loan struct {
	// Mem returns the memory of a part, whose elements lie in it as in Array.Bytes, or nil if
	// the part lies nowhere in one piece. The Part that it is given has no memory.
	Mem func(Part) []byte
	// Fill writes a part that is not lent, as PutParts wants it.
	Fill func(Part) error
	// Back, if not nil, is called once, when the memory is not read any more: when the Array was
	// recycled, or some time after nobody refers to it, or before Lend returns if no part is lent.
	Back func()
}

// lentAt is what the address of lent memory is a multiple of, as array.New's is: kernels read
// elements of up to so many bytes.
const lentAt = 8

// Lend is PutParts for parts whose memory the caller has already: an array of a mapped file takes
// no memory of the process's own, and opening it reads nothing. Ranks that hold the same part share
// it. A part is written to memory of the session, as PutParts does it, if l.Mem returns nil or
// memory that does not begin at a multiple of 8 bytes, or if the session has a device which cannot
// see the memory. Array.Lent says how much is lent.
//
// A step that the Array is donated to fails before anything is computed, since it would write to
// the memory, and no session takes the memory for other arrays.
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
	if a, err = s.place(p, l.Mem, l.Fill); err != nil {
		return nil, err
	}
	if a.borrowed > 0 {
		for i := range a.parts {
			if b := seen[unsafe.SliceData(a.parts[i].Bytes())]; b != nil && a.parts[i].from == nil {
				a.parts[i].from = b
			}
		}
		a.loan = &loan{back: back}
		a.loan.dropped = goruntime.AddCleanup(a.loan, func(back func()) { back() }, back)
	}
	return a, nil
}

// Lent returns how many bytes of the parts of this process's ranks lie in memory that was lent.
// Memory that ranks share counts for each of them.
func (d *Array) Lent() int64 { return d.borrowed }

// lentBlocks are the lent parts that a device sees, by their address.
type lentBlocks map[*byte]*block

// shown returns a Loan.Mem that is mem for what the device sees.
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

// free takes the memory away from the device, and reports whether it may be given back: a device
// that has failed may use it for ever.
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

// loan is what the Arrays over lent memory refer to, copies of them included.
type loan struct {
	back    func()
	dropped goruntime.Cleanup
}

// end gives the memory back.
func (l *loan) end() {
	l.dropped.Stop()
	l.back()
}

// borrow returns the part in lent memory. It returns the part as it is if it is not lent, or lies at
// an address that kernels cannot read elements from. An error says that there is less memory than
// the part has bytes, or more.
func borrow(p Part, mem func(Part) []byte) (Part, error) {
	b := mem(p)
	if b == nil || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%lentAt != 0 {
		return p, nil
	}
	if want := p.Type.Bytes(); int64(len(b)) != want {
		return p, fmt.Errorf("%s: %d bytes are lent, want %d", p, len(b), want)
	}
	p.Array = array.Over(p.Type, b)
	return p, sound(p)
}
