package metaltest

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/gomoe/gomoe/metal/counts"
	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/metal/kernels"
)

// way is one of the ways to run a program.
type way struct {
	mode  mode
	order emu.Order
}

func (w way) String() string { return fmt.Sprintf("%s, %s order", w.mode, w.order) }

// ways returns the ways to run a program in some modes, or in all modes.
func ways(modes []mode) []way {
	var out []way
	for _, m := range modesOf(modes) {
		for _, o := range []emu.Order{emu.Forward, emu.Reverse, emu.Random} {
			if m == leader || m == distributed || o == emu.Forward { // every order detects a missing fence
				out = append(out, way{m, o})
			}
		}
	}
	return out
}

// run runs a task on the memory of an instruction.
func run(ctx context.Context, t task, m *memory, libs map[key]*emu.Library, w way, seed uint64) error {
	p := t.program
	if err := m.prepare(p); err != nil {
		return err
	}
	m.counts = make([]counts.Counts, len(p.Launches))
	for i, l := range p.Launches {
		if l.Groups[0]*l.Groups[1]*l.Groups[2] == 0 {
			continue
		}
		lib := libs[key{l.Source.File, w.mode}]
		launch := emu.Launch{Function: l.Function, Groups: l.Groups, Threads: l.Threads, Memory: l.Memory, Constants: l.Constants, Order: w.order, Seed: seed, Flush: w.mode == contracted}
		if w.mode == counted {
			launch.Counts = &m.counts[i]
		}
		if i := t.function(l); i >= 0 {
			launch.Limit = max(t.kernel.Functions[i].Memory, 1)
		}
		for j, a := range l.Args {
			b, err := m.binding(a)
			if err != nil {
				return fmt.Errorf("launch %d: buffer %d: %w", i, j, err)
			}
			launch.Buffers = append(launch.Buffers, b)
		}
		if err := lib.Run(ctx, launch); err != nil {
			return fmt.Errorf("launch %d: %w", i, err)
		}
	}
	return nil
}

// binding returns the binding of a launch's argument.
func (m *memory) binding(a kernels.Arg) (emu.Binding, error) {
	var list []int
	switch a.Kind {
	case kernels.OfBytes:
		return emu.Binding{Bytes: a.Bytes}, nil
	case kernels.OfStatus:
		return emu.Binding{Buffer: m.status}, nil
	case kernels.OfScratch:
		if a.Index < 0 || a.Index >= len(m.scratch) {
			return emu.Binding{}, fmt.Errorf("scratch %d of %d", a.Index, len(m.scratch))
		}
		return emu.Binding{Buffer: m.scratch[a.Index]}, nil
	case kernels.OfZones:
		if m.zones < 0 {
			return emu.Binding{}, fmt.Errorf("zones, and the instruction has none")
		}
		return emu.Binding{Buffer: m.buffers[m.zones]}, nil
	case kernels.OfIn:
		list = m.in
	case kernels.OfOut:
		list = m.out
	default:
		return emu.Binding{}, fmt.Errorf("an argument of kind %d", a.Kind)
	}
	if a.Index < 0 || a.Index >= len(list) {
		return emu.Binding{}, fmt.Errorf("operand %d of %d", a.Index, len(list))
	}
	return emu.Binding{Buffer: m.buffers[list[a.Index]]}, nil
}

// fault returns the error for the program's status record, nil if no launch has written to the
// record.
func (m *memory) fault(p *kernels.Program) error {
	var record [kernels.StatusLen]int32
	clear := true
	for i := range record {
		record[i] = int32(binary.LittleEndian.Uint32(m.status.Bytes()[4*i:]))
		clear = clear && record[i] == kernels.StatusClear
	}
	switch {
	case clear:
		return nil
	case p.Fault == nil:
		return fmt.Errorf("status %v, and the program has no Fault to explain it", record)
	}
	return p.Fault(record)
}
