package train

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"

	"github.com/gomoe/gomoe"
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
	text := func(n int64) string { return memory.Format(float64(n)) }
	ranks := "1 rank"
	if m.Ranks != 1 {
		ranks = fmt.Sprintf("%d ranks", m.Ranks)
	}
	s := fmt.Sprintf("%s for %s: state %s, step %s", text(m.Total()), ranks, text(m.State), text(m.Step))
	if m.Held > 0 {
		s += ", held-out " + text(m.Held)
	}
	if m.Saves > 0 {
		s += ", saves " + text(m.Saves)
	}
	return s + ", rest " + text(m.Process+m.Model)
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

// Lighter is a setting that reduces the memory of a step.
type Lighter struct {
	Setting string // as the user gives it, such as -remat all
	// Program returns the step with this setting, and its placement.
	Program func() (*Program, gomoe.Config, error)
}

// Lightest extends a *gomoe.TooLargeError with the memory needed under other settings, listing those which can be
// planned and need less. It returns other errors unchanged. now is the current step, and cfg its placement. When
// ctx ends, compilation stops, and Lightest returns the cause.
func Lightest(ctx context.Context, err error, now *Program, cfg gomoe.Config, settings []Lighter) error {
	var tooLarge *gomoe.TooLargeError
	if !errors.As(err, &tooLarge) {
		return err
	}
	takes := func(p *Program, cfg gomoe.Config) (int64, error) {
		cfg, err := p.Placed(cfg)
		if err != nil {
			return 0, err
		}
		plan, err := gomoe.Compile(ctx, p.Program, cfg)
		if err != nil {
			return 0, err
		}
		m := plan.Report(goruntime.GOMAXPROCS(0)).Mem
		return m.OfRanks(tooLarge.Ranks), nil
	}
	all, wrong := takes(now, cfg)
	if wrong != nil && ctx.Err() == nil {
		return err
	}
	var list []string
	for _, s := range settings {
		p, cfg, wrong := s.Program()
		if wrong != nil {
			continue // the setting does not apply
		}
		if n, wrong := takes(p, cfg); wrong == nil && n < all {
			list = append(list, fmt.Sprintf("%s (%s)", s.Setting, memory.Format(float64(n))))
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(list) == 0 {
		return err
	}
	return fmt.Errorf("%w; with its inputs the step takes %s, and less with %s", err, memory.Format(float64(all)), strings.Join(list, ", "))
}
