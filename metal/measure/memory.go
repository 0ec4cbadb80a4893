package measure

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/counts"
	"github.com/gomoe/gomoe/metal/kernels"
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

// task is an instruction to measure.
type task struct {
	in              *kernels.Instr
	tolerance       kernels.Tolerance
	row             Row
	memory          *memory // nil before the first step
	times           int     // steps so far
	host, wall, gpu []time.Duration
}

// result returns the row with the median times.
func (t *task) result() Row {
	r := t.row
	r.Host, r.Wall, r.GPU = median(t.host), median(t.wall), median(t.gpu)
	return r
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// at names an instruction of a plan, or of a loop's body.
type at struct {
	plan  *lowering.Plan
	index int
}

// watcher makes the device repeat the first rank's instructions.
type watcher struct {
	device runtime.Device
	// counter counts the device's work; nil if only time is measured.
	counter counter
	// alone runs one instruction and waits for it.
	alone func(at at, bufs []array.Array) (wall, gpu time.Duration, err error)
	tasks map[at]*task
	order []at
	began time.Time // start of the host's instruction
	err   error     // the first error
}

var _ runtime.Observer = (*watcher)(nil)

// Before copies the instruction's operands to the device's memory.
func (w *watcher) Before(k runtime.Observed) {
	if k.Rank != 0 {
		return
	}
	t := w.tasks[at{k.Plan, k.Index}]
	if t == nil || w.err != nil {
		return
	}
	if t.memory == nil {
		if t.memory, w.err = newMemory(w.device, k); w.err != nil {
			return
		}
	}
	t.memory.load(k)
	w.began = time.Now()
}

// After runs the instruction on the device. The first time, it compares the results.
func (w *watcher) After(k runtime.Observed) {
	if k.Rank != 0 {
		return
	}
	host := time.Since(w.began)
	t := w.tasks[at{k.Plan, k.Index}]
	if t == nil || w.err != nil {
		return
	}
	var before counts.Device
	if w.counter != nil {
		before, _ = w.counter.Counts()
	}
	wall, gpu, err := w.alone(at{k.Plan, k.Index}, t.memory.bufs)
	if err != nil {
		w.err = fmt.Errorf("instruction %d, %s: %w", k.Index, t.row.Instruction, err)
		return
	}
	t.times++
	if t.times == 1 {
		t.compare(k)
		if w.counter != nil {
			after, _ := w.counter.Counts()
			after = after.Sub(before)
			t.row.Counts = &after
		}
		return
	}
	t.host, t.wall, t.gpu = append(t.host, host), append(t.wall, wall), append(t.gpu, gpu)
}

// compare records the difference between the device's results and the host's, and the work of the
// instruction.
func (t *task) compare(k runtime.Observed) {
	used := zones(k)
	for i, want := range k.Out {
		got := t.memory.bufs[t.in.Out[i]]
		if t.in.Results[i].Ragged { // nobody reads rows past the zones
			n := min(zoned(k, t.in.Align), want.Type.Shape[0])
			got, want = got.Rows(0, n), want.Rows(0, n)
		}
		d := t.tolerance.Compare(got, want)
		if i == 0 || t.row.Difference >= 0 && !(d.Largest <= t.row.Difference) {
			t.row.Difference = finite(d.Largest)
		}
		if i == 0 || t.row.Share >= 0 && !(d.Share <= t.row.Share) {
			t.row.Share = finite(d.Share)
		}
	}
	t.row.FLOPs, t.row.Bytes = work(t.in, t.row.Kernel, used)
}

// zones returns the number of rows in use. zoned also counts the rows padding experts' zones to
// multiples of align.
func zones(k runtime.Observed) int { return zoned(k, 1) }

func zoned(k runtime.Observed, align int) int {
	n := 0
	if k.Plan.Instrs[k.Index].Zones < 0 {
		return 0
	}
	align = max(align, 1)
	for _, c := range array.Data[int32](k.Zones) {
		n += (int(c) + align - 1) / align * align
	}
	return n
}

// free frees the device's memory.
func (w *watcher) free() {
	for _, t := range w.tasks {
		if t.memory != nil {
			t.memory.free()
		}
	}
}
