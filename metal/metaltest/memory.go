package metaltest

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/counts"
	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/runtime"
)

// memory holds an instruction's operands as they were before the host ran the instruction. It has
// one piece for each piece of the host's memory. So a result aliasing an argument on the host does
// so on the device too.
type memory struct {
	pieces        []piece
	in, out       []int // the pieces of arguments and of results
	zones         int   // the piece with the zones, -1 if there are none
	rows          rows  // the rows of ragged operands
	inRag, outRag []bool
	buffers       []*emu.Buffer // one per piece
	scratch       []*emu.Buffer
	status        *emu.Buffer
	counts        []counts.Counts // of each launch, in mode counted
}

// piece is a piece of memory.
type piece struct {
	before []byte // nil if no argument is in this piece
	size   int
	result bool
}

// rows marks the rows in use in experts' zones.
type rows struct {
	used []bool // by row, up to the end of the last zone
}

// rowsOf returns the rows of zones, one zone per count of rows in use. A zone's length is the
// count, rounded up to a multiple of align.
func rowsOf(counts []int32, align int) rows {
	var r rows
	for _, c := range counts {
		length := int(c)
		if align > 1 {
			length = (length + align - 1) / align * align
		}
		for i := range length {
			r.used = append(r.used, i < int(c))
		}
	}
	return r
}

// capture returns a copy of the memory that the host's kernel is about to use. In the copy, unused
// rows of ragged arguments are poisoned.
func capture(k runtime.Observed) (*memory, error) {
	in := &k.Plan.Instrs[k.Index]
	m := &memory{zones: -1}
	var places []unsafe.Pointer
	place := func(a array.Array) int {
		mem := a.Bytes()
		p := unsafe.Pointer(unsafe.SliceData(mem))
		for i, q := range places {
			if p == q && len(mem) > 0 && m.pieces[i].size == len(mem) {
				return i
			}
		}
		places = append(places, p)
		m.pieces = append(m.pieces, piece{size: len(mem)})
		return len(m.pieces) - 1
	}
	if in.Zones >= 0 {
		m.rows = rowsOf(array.Data[int32](k.Zones), in.Align)
		m.zones = place(k.Zones)
		m.pieces[m.zones].before = bytes.Clone(k.Zones.Bytes())
	}
	for i, a := range k.In {
		p := place(a)
		m.in = append(m.in, p)
		m.inRag = append(m.inRag, ragged(k.Plan, in.In[i]))
		if m.pieces[p].before == nil {
			m.pieces[p].before = append([]byte{}, a.Bytes()...)
			if m.inRag[i] {
				if err := m.rows.poison(a, m.pieces[p].before); err != nil {
					return nil, fmt.Errorf("argument %d: %w", i, err)
				}
			}
		}
	}
	for i, a := range k.Out {
		p := place(a)
		m.out = append(m.out, p)
		m.outRag = append(m.outRag, ragged(k.Plan, in.Out[i]))
		m.pieces[p].result = true
	}
	return m, nil
}

func ragged(p *lowering.Plan, buf int) bool { return p.Bufs[buf].Spec.Ragged != nil }

// rowBytes returns the bytes of a row of a.
func rowBytes(a array.Array) int {
	if a.Type.Rank() == 0 || a.Type.Shape[0] == 0 {
		return 0
	}
	return len(a.Bytes()) / a.Type.Shape[0]
}

// poison sets all unused rows of mem to NaN.
func (r rows) poison(a array.Array, mem []byte) error {
	n := rowBytes(a)
	if n == 0 {
		return nil
	}
	if total := len(mem) / n; len(r.used) > total {
		return fmt.Errorf("zones of %d rows in %d", len(r.used), total)
	}
	for row := range len(mem) / n {
		if row >= len(r.used) || !r.used[row] {
			fill(mem[row*n : (row+1)*n])
		}
	}
	return nil
}

// fill sets all bytes to a value making every floating-point element a NaN.
func fill(b []byte) {
	for i := range b {
		b[i] = 0xFF
	}
}

// unwritten sets a result's bytes to the values set by runtime.Options.Poison on the host, which
// are NaNs of every type too. So elements written by neither the host nor the device, such as a
// wire's elements past the last row, are equal on both.
func unwritten(b []byte) {
	for i := range b {
		b[i] = unwrittenByte(i)
	}
}

func unwrittenByte(i int) byte { return [2]byte{0xFF, 0x7F}[i%2] }

// prepare allocates the device's memory, or restores the initial contents of memory allocated
// before.
func (m *memory) prepare(p *kernels.Program) error {
	if m.buffers == nil {
		var err error
		grow := func(to *[]*emu.Buffer, n int) {
			if err == nil {
				var b *emu.Buffer
				if b, err = emu.NewBuffer(n); err == nil {
					*to = append(*to, b)
				}
			}
		}
		for _, x := range m.pieces {
			grow(&m.buffers, x.size)
		}
		for _, n := range p.Scratch {
			grow(&m.scratch, n)
		}
		var status []*emu.Buffer
		grow(&status, 4*kernels.StatusLen)
		if err != nil {
			return errors.Join(err, m.close())
		}
		m.status = status[0]
	}
	for i, x := range m.pieces {
		if x.before != nil {
			copy(m.buffers[i].Bytes(), x.before)
		} else {
			unwritten(m.buffers[i].Bytes())
		}
	}
	for _, b := range m.scratch {
		fill(b.Bytes())
	}
	for i := range kernels.StatusLen {
		b := m.status.Bytes()[4*i:]
		b[0], b[1], b[2], b[3] = 0xFF, 0xFF, 0xFF, 0x7F // StatusClear, little endian
	}
	return nil
}

// close frees the device's memory.
func (m *memory) close() error {
	all := append(append([]*emu.Buffer{}, m.buffers...), m.scratch...)
	if m.status != nil {
		all = append(all, m.status)
	}
	var errs []error
	for _, b := range all {
		errs = append(errs, b.Close())
	}
	m.buffers, m.scratch, m.status = nil, nil, nil
	return errors.Join(errs...)
}

// unchanged returns an error if the device wrote to an argument, or past the rows of a ragged
// result.
func (m *memory) unchanged(k runtime.Observed) error {
	for i, x := range m.pieces {
		if x.before != nil && !x.result && !bytes.Equal(x.before, m.buffers[i].Bytes()) {
			return fmt.Errorf("an argument was written to: %s", m.describe(i))
		}
	}
	for i, p := range m.out {
		if !m.outRag[i] {
			continue
		}
		n := rowBytes(k.Out[i])
		end := min(len(m.rows.used)*n, m.pieces[p].size)
		for j, b := range m.buffers[p].Bytes()[end:] {
			was := unwrittenByte(end + j)
			if before := m.pieces[p].before; before != nil { // an argument's memory
				was = before[end+j]
			}
			if b != was {
				return fmt.Errorf("result %d: row %d was written, zones end at row %d", i, len(m.rows.used)+j/n, len(m.rows.used))
			}
		}
	}
	return nil
}

// describe describes a piece for errors.
func (m *memory) describe(piece int) string {
	for i, p := range m.in {
		if p == piece {
			return fmt.Sprintf("argument %d", i)
		}
	}
	return "the rows in use"
}
