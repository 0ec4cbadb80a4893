package lowering

// Schedule is the division of a plan for a target between a rank's host and its device.
// The device runs its instructions in order. It gets them in consecutive segments. The
// host runs all other instructions in order, and waits for the device when it has to.
//
// A segment ends when the host is about to touch memory used by the segment; before a
// collective, so that the device works while ranks wait for each other; and at the end of
// the plan. The host waits only up to the last segment that it conflicts with: a segment
// that writes memory that the host reads or writes, or reads memory that the host writes.
// Buffers conflict if they share memory: as aliases, at the same place of the arena one
// after the other, or if a result is written over a donated input.
type Schedule struct {
	// Turns has one element for each instruction, and one for the end of the plan: the
	// host's actions before the instruction. The turns of the target's instructions are
	// zero.
	Turns []Turn
	// Segments are the target's instructions, in order.
	Segments [][]int
}

// Turn is the host's actions before an instruction.
type Turn struct {
	// Commit submits the open segment to the device.
	Commit bool
	// Wait is the number of segments of the step that must be done before the host
	// continues; 0 if it need not wait.
	Wait int
}

// Schedule returns the division of the plan between the host and its target.
func (p *Plan) Schedule() *Schedule {
	s := &Schedule{Turns: make([]Turn, len(p.Instrs)+1)}
	t := turns{memory: touched{}, of: make([]int, len(p.Instrs))}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		reads, writes := p.extents(p.inputs(in)), p.extents(in.Out)
		if in.On {
			t.memory.mark(i, reads, false)
			t.memory.mark(i, writes, true)
			t.open = append(t.open, i)
			t.of[i] = len(s.Segments) + 1
			continue
		} else if in.Communicates() {
			s.commit(&t, i)
		}
		if j := max(t.memory.last(reads, false), t.memory.last(writes, true)); j >= 0 {
			s.wait(&t, i, t.of[j])
		}
	}
	end := len(p.Instrs)
	s.commit(&t, end)
	s.wait(&t, end, len(s.Segments))
	return s
}

// Waits returns the number of times that the host waits for the device in a step.
func (s *Schedule) Waits() int {
	n := 0
	for _, t := range s.Turns {
		if t.Wait > 0 {
			n++
		}
	}
	return n
}

func (s *Schedule) commit(t *turns, i int) {
	if len(t.open) > 0 {
		s.Turns[i].Commit = true
		s.Segments = append(s.Segments, t.open)
		t.open = nil
	}
}

func (s *Schedule) wait(t *turns, i, segments int) {
	if segments > len(s.Segments) {
		s.commit(t, i)
	}
	if segments > t.done {
		s.Turns[i].Wait, t.done = segments, segments
	}
}

// turns is a schedule under construction.
type turns struct {
	memory touched // by instructions of the target
	of     []int   // per instruction of the target: its segment, counted from 1
	open   []int   // the instructions of the open segment
	done   int     // number of segments waited for
}
