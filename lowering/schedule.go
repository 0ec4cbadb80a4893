package lowering

// Schedule says how a rank's host and its device take turns in a plan that is made for
// a target. The device runs its instructions in order. It gets them in segments, one
// after another. The host runs all other instructions in order, and waits for the device
// where it has to.
//
// A segment ends where the host is about to touch memory that the segment works on,
// before a collective, so that the device works while ranks wait for each other, and at
// the end of the plan. The host waits only up to the last segment that it conflicts with:
// a segment that writes what the host reads or writes, or reads what the host writes.
// Buffers conflict if they share memory: as aliases, at the same place of the arena one
// after the other, or where a result is written over a donated input.
type Schedule struct {
	// Turns has one element for each instruction, and one for the end of the plan: what
	// the host does before the instruction. The turns of the target's instructions are
	// zero.
	Turns []Turn
	// Segments are the target's instructions, in order.
	Segments [][]int
}

// Turn is what the host does before an instruction.
type Turn struct {
	// Commit hands the open segment to the device.
	Commit bool
	// Wait is the number of segments of the step that must be done before the host goes
	// on; 0 if it need not wait.
	Wait int
}

// Schedule returns how the host and the plan's target take turns.
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

// Waits returns how often the host waits for the device in a step.
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

// turns is a schedule that is being made.
type turns struct {
	memory touched // by instructions of the target
	of     []int   // of each instruction of the target: its segment, counted from 1
	open   []int   // the instructions of the open segment
	done   int     // how many segments have been waited for
}
