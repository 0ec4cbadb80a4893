package runtime

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/lowering"
)

// Trace writes the activities of every rank in the Trace Event Format, which Perfetto and
// chrome://tracing open. Each rank has one track, with one slice per kernel and
// collective; a slice has its source line, and for collectives their bytes. The slice of
// a loop contains its body's slices, each with its iteration. If a plan overlaps
// collectives with kernels, a rank's collectives are on a second track, and the first
// track shows the rank's waits for them. A device has a track of its own, with one slice
// per segment by the device's clock, which lists the segment's instructions. Events are
// written as they happen, so memory does not grow. A nil Trace records nothing.
type Trace struct {
	mu      sync.Mutex
	w       io.Writer
	file    *whole.File // of CreateTrace
	start   time.Time
	n       int
	clocked bool // Clock has been called
	named   map[int]bool
	totals  map[int]Totals // by rank
	err     error
}

// NewTrace returns a trace writing to w. Close completes the file.
func NewTrace(w io.Writer) *Trace {
	return &Trace{w: w, start: time.Now(), named: map[int]bool{}, totals: map[int]Totals{}}
}

// CreateTrace returns a trace writing to a file. The file appears, or replaces an older
// one, when Close has completed it. It is an error if the file cannot be written.
func CreateTrace(path string) (*Trace, error) {
	f, err := whole.Create(path)
	if err != nil {
		return nil, fmt.Errorf("runtime: trace: %w", err)
	}
	t := NewTrace(bufio.NewWriterSize(f, 1<<20)) // there is an event per kernel and rank
	t.file = f
	return t, nil
}

// devices is the number of the track of rank 0's device; other devices' tracks follow.
const devices = 2 << 20

// communication is the number of the track of rank 0's collectives in plans overlapping
// them with kernels; other ranks' follow. A rank's own track has the rank's number.
const communication = 1 << 20

type traceEvent struct {
	Name string         `json:"name"`
	Cat  string         `json:"cat,omitempty"`
	Ph   string         `json:"ph"`
	Ts   float64        `json:"ts"` // microseconds
	Dur  float64        `json:"dur,omitempty"`
	Pid  int            `json:"pid"`
	Tid  int            `json:"tid"`
	Args map[string]any `json:"args,omitempty"`
}

// Clock records the start of the trace by this machine's clock, and the offset to rank
// 0's clock, accurate to uncertain. The traces of a job's processes can then be merged
// into one. Only the first call counts.
func (t *Trace) Clock(rank int, offset, uncertain time.Duration) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clocked {
		return
	}
	t.clocked = true
	t.put(traceEvent{Name: ClockEvent, Ph: "M", Tid: rank, Args: map[string]any{
		"start_unix_ns": t.start.UnixNano(), "offset_ns": offset.Nanoseconds(), "uncertain_ns": uncertain.Nanoseconds(),
	}})
}

// ClockEvent is the name of the event that Clock writes.
const ClockEvent = "gomoe_clock"

func (t *Trace) add(r *rank, in *lowering.Instr, began time.Time) {
	if t != nil {
		t.addOn(r.comm.Rank(), r, in, began)
	}
}

// addOn records an instruction of r on the given track.
func (t *Trace) addOn(track int, r *rank, in *lowering.Instr, began time.Time) {
	if t.countInstr(track, r.comm.Rank(), in, began); t.w == nil {
		return
	}
	e := traceEvent{Name: in.Name(), Cat: "kernel", Ph: "X", Tid: track, Args: map[string]any{"line": in.Pos.String()}}
	if r.iteration >= 0 {
		e.Args["iteration"] = r.iteration
	}
	if in.Loop != nil {
		e.Cat = "loop"
		e.Args["iterations"] = in.Loop.Op.Length
	} else if in.Communicates() {
		e.Cat = "collective"
		e.Args["bytes"], e.Args["axes"], e.Args["seq"] = in.Bytes, in.Axes, r.seq+in.Seq
	} else if in.Prim != nil {
		e.Args["primitive"] = in.Prim.Name() + graph.ParamString(in.Prim)
	}
	if len(in.Chain) > 0 {
		var parts []string
		for i := range in.Chain {
			parts = append(parts, fmt.Sprintf("%s (%s)", in.Chain[i].Name(), in.Chain[i].Pos))
		}
		e.Args["parts"] = parts
	}
	t.write(e, began, time.Now())
}

// addCollective is add for a collective of a plan overlapping some collectives with
// kernels: it goes to the rank's second track.
func (t *Trace) addCollective(r *rank, in *lowering.Instr, began time.Time) {
	if t != nil {
		t.addOn(communication+r.comm.Rank(), r, in, began)
	}
}

// addWait records that a rank waited for its collectives.
func (t *Trace) addWait(rank int, began time.Time) {
	if t == nil {
		return
	}
	t.count(rank, func(x *Totals) *time.Duration { return &x.Waits }, began)
	t.write(traceEvent{Name: "wait", Cat: "wait", Ph: "X", Tid: rank}, began, time.Now())
}

// addSpan records a segment run by a rank's device. The slice's name lists the segment's
// instructions, so the same segment has the same name in every step.
func (t *Trace) addSpan(r *rank, s Span) {
	rank, p := r.comm.Rank(), r.plan
	var names, lines []string
	for i := s.First; i < s.First+s.Len; i++ {
		if in := &p.Instrs[i]; in.On {
			names, lines = append(names, in.Name()), append(lines, in.Pos.String())
		}
	}
	e := traceEvent{Name: "segment", Cat: "segment", Ph: "X", Tid: devices + rank,
		Args: map[string]any{"segment": s.Ticket, "count": len(names), "instructions": names, "lines": lines}}
	if r.iteration >= 0 {
		e.Args["iteration"] = r.iteration
	}
	switch n := len(names); n {
	case 0:
	case 1:
		e.Name = names[0]
	default:
		e.Name = fmt.Sprintf("%d instructions, %s to %s", n, names[0], names[n-1])
	}
	t.writeOn(fmt.Sprintf("rank %d %s", rank, p.Target), e, s.From, s.To)
}

func (t *Trace) endStep(plan string, step int, began time.Time, ranks []int) {
	if t == nil {
		return
	}
	for _, r := range ranks {
		t.count(r, func(x *Totals) *time.Duration { return &x.Steps }, began)
		t.write(traceEvent{Name: fmt.Sprintf("%s step %d", plan, step), Cat: "step", Ph: "X", Tid: r}, began, time.Now())
	}
}

// write records an event on the rank's track or on its communication track.
func (t *Trace) write(e traceEvent, began, end time.Time) {
	name := fmt.Sprintf("rank %d", e.Tid)
	if e.Tid >= communication {
		name = fmt.Sprintf("rank %d communication", e.Tid-communication)
	}
	t.writeOn(name, e, began, end)
}

// writeOn records an event on the named track. A rank's tracks are next to each other.
func (t *Trace) writeOn(track string, e traceEvent, began, end time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.named[e.Tid] {
		t.named[e.Tid] = true
		order := e.Tid%communication*2 + min(e.Tid/communication, 1)
		t.put(traceEvent{Name: "thread_name", Ph: "M", Tid: e.Tid, Args: map[string]any{"name": track}})
		t.put(traceEvent{Name: "thread_sort_index", Ph: "M", Tid: e.Tid, Args: map[string]any{"sort_index": order}})
	}
	e.Ts = float64(began.Sub(t.start).Nanoseconds()) / 1e3
	e.Dur = float64(end.Sub(began).Nanoseconds()) / 1e3
	t.put(e)
}

func (t *Trace) put(e traceEvent) {
	if t.w == nil {
		return // of NewTotals
	}
	sep := ",\n"
	if t.n == 0 {
		sep = "{\"traceEvents\":[\n"
	}
	t.n++
	b, err := json.Marshal(e)
	if err == nil && t.err == nil {
		_, err = fmt.Fprintf(t.w, "%s%s", sep, b)
	}
	if t.err == nil {
		t.err = err
	}
}

// Close ends the trace and returns the first error of any write. After an error
// CreateTrace leaves no file. Call Close once.
func (t *Trace) Close() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	end := "\n]}\n"
	if t.n == 0 {
		end = "{\"traceEvents\":[]}\n"
	}
	if t.err == nil && t.w != nil {
		_, t.err = io.WriteString(t.w, end)
	}
	if t.file == nil {
		return t.err
	}
	defer t.file.Discard()
	if b := t.w.(*bufio.Writer); t.err == nil {
		t.err = b.Flush()
	}
	if t.err == nil {
		t.err = t.file.Close()
	}
	if t.err != nil {
		return fmt.Errorf("runtime: trace: %w", t.err)
	}
	return nil
}
