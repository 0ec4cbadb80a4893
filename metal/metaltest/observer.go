package metaltest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/runtime"
)

// observer runs each instruction on the device after the host has run it.
type observer struct {
	t       testing.TB
	plan    *lowering.Plan
	work    map[at]task
	libs    map[key]*emu.Library
	ways    []way
	options Options

	mu   sync.Mutex
	done map[string]int           // instructions compared, by name
	open map[int]*memory          // by rank: the memory of the instruction being run by the host
	last map[int]runtime.Observed // by rank: that instruction

	counts []Work // in mode counted
}

var _ runtime.Observer = (*observer)(nil)

// Before copies the arguments of an instruction that the device runs too.
func (o *observer) Before(k runtime.Observed) {
	if _, ok := o.work[atOf(k.Plan, k.Rank, k.Index)]; !ok {
		return
	}
	m, err := capture(k)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.t.Errorf("%s: %v", o.name(k), err)
		return
	}
	o.open[k.Rank] = m
	o.last[k.Rank] = k
}

// After runs the instruction on the device and compares the results with the host's.
func (o *observer) After(k runtime.Observed) {
	w, ok := o.work[atOf(k.Plan, k.Rank, k.Index)]
	if !ok {
		return
	}
	o.mu.Lock()
	m := o.open[k.Rank]
	delete(o.open, k.Rank)
	delete(o.last, k.Rank)
	o.mu.Unlock()
	if m == nil {
		return // reported before
	}
	if err := errors.Join(o.compare(k, w, m), m.close()); err != nil {
		o.t.Errorf("%s: %v", o.name(k), err)
		return
	}
	o.mu.Lock()
	o.done[k.Plan.Instrs[k.Index].Name()]++
	o.mu.Unlock()
}

// name names an instruction in errors.
func (o *observer) name(k runtime.Observed) string {
	in := &k.Plan.Instrs[k.Index]
	var types []string
	for _, b := range in.In {
		types = append(types, k.Plan.Bufs[b].Type.String())
	}
	return fmt.Sprintf("rank %d: instruction %d, %s(%s)", k.Rank, k.Index, in.Name(), strings.Join(types, ", "))
}

// compare runs the instruction in all ways.
func (o *observer) compare(k runtime.Observed, w task, m *memory) error {
	var first [][]byte
	for _, x := range o.ways {
		if err := run(o.t.Context(), w, m, o.libs, x, o.options.Seed); err != nil {
			return fmt.Errorf("%s: %w", x, err)
		}
		if err := m.fault(w.program); err != nil {
			return fmt.Errorf("%s: the device reports what the host does not: %w", x, err)
		}
		if err := m.unchanged(k); err != nil {
			return fmt.Errorf("%s: %w", x, err)
		}
		if x.mode == counted {
			o.mu.Lock()
			o.counts = append(o.counts, Work{k.Plan.Instrs[k.Index].Name(), w.program, m.counts})
			o.mu.Unlock()
		}
		for i, p := range m.out {
			got := m.buffers[p].Bytes()
			if len(first) < len(m.out) {
				if err := m.near(i, k.Out[i], got, w.tolerance()); err != nil {
					return fmt.Errorf("%s: result %d: %w", x, i, err)
				}
				first = append(first, bytes.Clone(got))
				continue
			}
			if !bytes.Equal(first[i], got) {
				return fmt.Errorf("result %d is not the same in %s and in %s: %s", i, o.ways[0], x, firstDifference(k.Out[i], first[i], got))
			}
		}
	}
	return nil
}

// compareFaults runs the instructions at which the host has failed. The device must report an error
// with the same words.
func (o *observer) compareFaults() {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := false
	for rank, m := range o.open {
		k := o.last[rank]
		w := o.work[atOf(k.Plan, k.Rank, k.Index)]
		for _, x := range o.ways {
			if err := run(o.t.Context(), w, m, o.libs, x, o.options.Seed); err != nil {
				o.t.Errorf("%s: %s: %v", o.name(k), x, err)
				continue
			}
			err := m.fault(w.program)
			if err == nil || !strings.Contains(err.Error(), o.options.Fails) {
				o.t.Errorf("%s: %s: the device reports %v, want an error with %q", o.name(k), x, err, o.options.Fails)
			}
		}
		found = true
		o.done[k.Plan.Instrs[k.Index].Name()]++
	}
	if !found {
		o.t.Errorf("the step failed in no instruction that the device does:\n%s", o.hosts())
	}
}

// firstDifference names the first element differing between a and b.
func firstDifference(like array.Array, a, b []byte) string {
	x, y := array.Over(like.Type, aligned(a)), array.Over(like.Type, aligned(b))
	size := max(1, len(a)/max(1, like.Type.Len()))
	for i := range a {
		if a[i] != b[i] {
			return fmt.Sprintf("element %d is %v and %v", i/size, valueAt(x, i/size), valueAt(y, i/size))
		}
	}
	return "nowhere"
}
