package train

import (
	"fmt"
	goruntime "runtime"

	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/train/snapshot"
)

// Memory is a run's memory use in this process, in bytes.
type Memory struct {
	Ranks int // in this process
	// State counts parameters, optimiser state and a batch; Step counts the additional memory of a step.
	State, Step int64
	Held        int64 // additional memory of evaluations
	Saves       int64 // the copy for writing checkpoints
	Process     int64 // memory of the process before opening the step
	Model       int64 // the parameters as returned by Weights when the run ends
}

// Total returns the sum.
func (m Memory) Total() int64 { return m.State + m.Step + m.Held + m.Saves + m.Process + m.Model }

// String gives the sum and its parts; Process and Model are combined.
func (m Memory) String() string {
	ranks := "1 rank"
	if m.Ranks != 1 {
		ranks = fmt.Sprintf("%d ranks", m.Ranks)
	}
	s := fmt.Sprintf("%s for %s: state %s, step %s", memory.Format(m.Total()), ranks, memory.Format(m.State), memory.Format(m.Step))
	if m.Held > 0 {
		s += ", held-out " + memory.Format(m.Held)
	}
	if m.Saves > 0 {
		s += ", saves " + memory.Format(m.Saves)
	}
	return s + ", rest " + memory.Format(m.Process+m.Model)
}

// Memory returns the memory use of the run, including evaluations and the copies made for saving.
func (r *Run) Memory(saves *Saves, held ...*Evaluation) Memory {
	threads := goruntime.GOMAXPROCS(0)
	local := r.Job.Local()
	m := Memory{Ranks: len(local), Process: r.before}
	for _, q := range r.p.Params {
		m.Model += q.Type.Bytes()
	}
	step := r.Job.Plan().Report(threads).Mem
	m.State = int64(m.Ranks) * step.Inputs
	m.Step = step.OfRanks(m.Ranks) - m.State
	for _, e := range held {
		x := e.Job.Plan().Report(threads).Mem
		m.Held += x.OfRanks(m.Ranks) - int64(m.Ranks)*x.Inputs - x.Workspace // the workspace is shared
	}
	if saves.Every > 0 {
		mesh := r.Job.Plan().Mesh
		for _, st := range r.p.State {
			spec := st.Spec(mesh)
			for _, rank := range local {
				if snapshot.Writes(spec, mesh, rank, saves.sites()) {
					_, part := spec.Box(mesh, rank, st.Type)
					m.Saves += part.Bytes()
				}
			}
		}
	}
	return m
}
