package measure

import (
	"slices"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/runtime"
)

// memory holds an instruction's operands in the device's memory. Operands sharing memory on the
// host share it there too.
type memory struct {
	bufs  []array.Array // by the plan's buffers; unused ones are zero
	areas []area
}

// area is a piece of the host's memory and its counterpart on the device.
type area struct {
	host, device []byte
	free         func()
}

// newMemory allocates memory for an instruction.
func newMemory(d runtime.Device, k runtime.Observed) (*memory, error) {
	m := &memory{bufs: make([]array.Array, len(k.Plan.Bufs))}
	for _, host := range areas(k) {
		mem, free, err := d.Alloc(len(host))
		if err != nil {
			m.free()
			return nil, err
		}
		m.areas = append(m.areas, area{host, mem, free})
	}
	eachOperand(k, func(buf int, a array.Array) {
		if len(a.Bytes()) == 0 {
			m.bufs[buf] = a
			return
		}
		for _, x := range m.areas {
			if at, ok := within(x.host, a.Bytes()); ok {
				m.bufs[buf] = array.Over(a.Type, x.device[at:at+len(a.Bytes())])
			}
		}
	})
	return m, nil
}

// load copies the current contents of all operands. Results are copied too, because a result may
// share an argument's memory. Operands may have moved since the step before.
func (m *memory) load(k runtime.Observed) {
	eachOperand(k, func(buf int, a array.Array) { copy(m.bufs[buf].Bytes(), a.Bytes()) })
}

func (m *memory) free() {
	for _, x := range m.areas {
		x.free()
	}
	m.areas = nil
}

// eachOperand calls f with every operand of the instruction.
func eachOperand(k runtime.Observed, f func(buf int, a array.Array)) {
	in := &k.Plan.Instrs[k.Index]
	for i, a := range k.In {
		f(in.In[i], a)
	}
	for i, a := range k.Out {
		f(in.Out[i], a)
	}
	if in.Zones >= 0 {
		f(in.Zones, k.Zones)
	}
}

// areas returns the memory of all operands, merged into pieces that do not overlap.
func areas(k runtime.Observed) [][]byte {
	var all [][]byte
	eachOperand(k, func(_ int, a array.Array) {
		if len(a.Bytes()) > 0 {
			all = append(all, a.Bytes())
		}
	})
	slices.SortFunc(all, func(a, b []byte) int {
		switch x, y := address(a), address(b); {
		case x != y:
			return int(min(max(int64(x)-int64(y), -1), 1))
		}
		return len(b) - len(a)
	})
	var out [][]byte
	for _, a := range all {
		if len(out) > 0 {
			last := out[len(out)-1]
			if end := address(last) + uintptr(len(last)); address(a) < end {
				if more := address(a) + uintptr(len(a)); more > end {
					out[len(out)-1] = unsafe.Slice(unsafe.SliceData(last), int(more-address(last)))
				}
				continue
			}
		}
		out = append(out, a)
	}
	return out
}

// within returns the offset of b in a. ok is false if b does not lie in a completely.
func within(a, b []byte) (at int, ok bool) {
	if address(b) < address(a) || address(b)+uintptr(len(b)) > address(a)+uintptr(len(a)) {
		return 0, false
	}
	return int(address(b) - address(a)), true
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
