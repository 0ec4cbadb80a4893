package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/train/report"
	"github.com/gomoe/gomoe/world"
)

// Loop runs training steps: it provides each step with its batch and learning rate, measures the held-out loss,
// shows progress, writes metrics, and saves checkpoints for resuming. In a job of several processes, all run the
// same Loop, and the first one writes. The step must have a result named loss.
type Loop struct {
	Steps  int // of the whole run, including those done by earlier runs
	Rate   Schedule
	Tokens int // per step, over all ranks
	// Batch returns the inputs of a step, such as Whole of arrays. It must depend on the step number only, so that a
	// resumed run sees the same batches as an uninterrupted one.
	Batch func(step int) (Parts, error)
	// HeldOut returns the loss on held-out data. It is called every Every steps and after the last one, unless it is
	// nil or Every is 0.
	HeldOut func(context.Context) (float64, error)
	Every   int
	// After, if not nil, is called in every process after each step, before saving. An error ends the run.
	After func(context.Context, *Done) error
	// Remedies completes the advice of DivergedError: how to lower the learning rate in this program, and how to
	// locate the kernel producing the first non-finite number. The zero Remedies refer to this package.
	Remedies Remedies
	// Failed, if not nil, is called with the error that ends the run, before drawing the picture. Drawing takes a
	// while, and a job with a failed rank should be ended before that. Failed is not called with Ended.Unwritten.
	Failed func(error)

	Saves   Saves
	Figures Figures
}

// Remedies is the advice given when training diverges.
type Remedies struct {
	Lower string // such as "-lr"; "" means "the learning rate"
	Find  string // such as "add -finite"; "" means "set runtime.Options.Finite"
}

// Done is a completed step.
type Done struct {
	report.Step
	// Results are the step's results other than its state, by name. They are valid until the next step.
	Results map[string]*runtime.Array
	// Demand and Counts count pairs of token and expert per layer and expert, before and after dropping. They are read
	// from the results demand and counts i32[layers,experts], and nil if the step lacks them.
	Demand, Counts [][]int64
}

// Ended describes the outcome of a Loop.
type Ended struct {
	Last  *Done // the last step; nil if this run has completed none
	Steps int   // completed steps, including steps of earlier runs
	// Stopped is set if the run ended before its last step because of stop or of Unwritten, in this process or
	// another.
	Stopped bool
	// Unwritten is the reason why a checkpoint, the metrics or the picture could not be written in this process or another
	// one, for example on a full disk. It ends the run in the same way as stop, so the state is the one after Steps.
	// It is nil if everything was written, or if another error ended the run.
	Unwritten error
	History   report.History // of this run, and of earlier ones with metrics in Figures.Folder
}

// Run trains until all steps are done or stop ends. When stop ends, the current step is completed and saved. When
// ctx ends, Run returns at once. The state of r must be set, for example by Begin. Run returns its outcome even
// with an error; Ended.Unwritten is one such error. A non-finite loss or norm is an error of type *DivergedError,
// returned after reporting the step.
func (l *Loop) Run(ctx, stop context.Context, r *Run) (*Ended, error) {
	if l.Figures.Listen != nil {
		defer l.Figures.Listen.Close()
	}
	e := &Ended{Steps: l.Saves.done}
	if err := l.check(r); err != nil {
		return e, err
	}
	if err := l.Saves.Meet(ctx, r); err != nil {
		return e, err
	}
	job, err := r.world.World.Info()
	if err != nil {
		return e, err
	}
	out, err := l.Figures.open(job.First(), l.Saves.done, l.Steps, &e.History)
	if err != nil {
		return e, err
	}
	out.serve()
	err = l.run(ctx, stop, r, out, e)
	e.failed(l.Saves.end(ctx, err))
	if closed := out.close(); e.Unwritten == nil { // else both may be the same error
		e.Unwritten = closed
	}
	if err != nil {
		err = errors.Join(err, e.Unwritten)
		if l.Failed != nil {
			l.Failed(err)
		}
	}
	drawn := out.draw(&e.History)
	if err != nil {
		e.Unwritten = nil
		return e, errors.Join(err, drawn)
	}
	e.failed(drawn)
	failed, err := r.world.World.Any(ctx, e.Unwritten != nil)
	if failed && e.Unwritten == nil {
		e.Unwritten = &world.ElsewhereError{What: "could not write"}
	}
	if e.Unwritten != nil {
		e.Unwritten = fmt.Errorf("%d of %d steps are done: %w", e.Steps, l.Steps, e.Unwritten)
	}
	return e, errors.Join(e.Unwritten, err)
}

// failed adds a write error.
func (e *Ended) failed(err error) { e.Unwritten = errors.Join(e.Unwritten, err) }

func (l *Loop) check(r *Run) error {
	switch {
	case l.Batch == nil || l.Rate == nil:
		return errors.New("train: loop: no batches or no rate, want Loop.Batch and Loop.Rate")
	case l.Steps < 1 || l.Every < 0 || l.Saves.Every < 0:
		return fmt.Errorf("train: loop: %d steps, held-out loss every %d, saves every %d: want at least 1, 0 and 0", l.Steps, l.Every, l.Saves.Every)
	case r.state == nil:
		return fmt.Errorf("train: %s: there is no state; call Loop.Begin before Loop.Run", r.p.Name)
	}
	return nil
}

func (l *Loop) run(ctx, stop context.Context, r *Run, out *outputs, e *Ended) (err error) {
	for n := e.Steps + 1; n <= l.Steps; n++ {
		e.failed(l.Saves.poll(ctx))
		if e.Stopped, err = r.world.World.Any(ctx, stop.Err() != nil || e.Unwritten != nil); err != nil {
			return err
		}
		if e.Stopped {
			e.failed(l.Saves.save(ctx, n-1, e.Last.heldOut(), r, out))
			return nil
		}
		d, err := l.step(ctx, n, r)
		if err != nil {
			return err
		}
		bad := l.diverged(d)
		if l.HeldOut != nil && l.Every > 0 && (n%l.Every == 0 || n == l.Steps) && bad == nil {
			if d.HeldOut, err = l.HeldOut(ctx); err != nil {
				return l.explain(n, err, false)
			}
		}
		e.Steps, e.Last = n, d
		e.History.Add(d.Step)
		e.failed(out.step(d.Step))
		if bad != nil {
			return bad
		}
		if l.After != nil {
			if err := l.After(ctx, d); err != nil {
				return fmt.Errorf("step %d: %w", n, err)
			}
		}
		if l.Saves.Every > 0 && (n%l.Saves.Every == 0 || n == l.Steps) {
			e.failed(l.Saves.save(ctx, n, d.heldOut(), r, out))
		}
	}
	return nil
}

// step runs step n.
func (l *Loop) step(ctx context.Context, n int, r *Run) (*Done, error) {
	began := time.Now()
	in, err := l.Batch(n)
	if err != nil {
		return nil, fmt.Errorf("step %d: batch: %w", n, err)
	}
	if in == nil {
		return nil, fmt.Errorf("step %d: batch: no inputs, want those of the model", n)
	}
	rate := l.Rate(n)
	compute, exchange, waiting := r.spent()
	results, err := r.StepParts(ctx, n, rate, in)
	if err != nil {
		return nil, l.explain(n, err, n == 1)
	}
	d, err := r.Read(ctx, results)
	if err != nil {
		return nil, l.explain(n, err, n == 1)
	}
	d.Index, d.Total, d.LR, d.Tokens, d.Elapsed = n, l.Steps, rate, l.Tokens, time.Since(began)
	d.Compute, d.Exchange, d.Waiting = r.spent()
	d.Compute, d.Exchange, d.Waiting = d.Compute-compute, d.Exchange-exchange, d.Waiting-waiting
	return d, nil
}

// heldOut returns the held-out loss, or 0 if it was not measured or is not finite.
func (d *Done) heldOut() float64 {
	if d == nil || math.IsNaN(d.HeldOut) || math.IsInf(d.HeldOut, 0) {
		return 0
	}
	return d.HeldOut
}

// Read returns the figures reported by a Loop from a step's results: loss, which is required, norm, balance, demand
// and counts. In a job of several processes, all must call it.
func (r *Run) Read(ctx context.Context, results map[string]*runtime.Array) (d *Done, err error) {
	if results["loss"] == nil {
		return nil, fmt.Errorf("train: %s: no result is named loss, want one that the loop reports", r.p.Name)
	}
	d = &Done{Results: results}
	for _, x := range []struct {
		name string
		to   *float64
	}{{"loss", &d.Loss}, {"balance", &d.Aux}, {"norm", &d.Norm}} { // in the same order in every process
		if *x.to, err = r.scalar(ctx, results[x.name]); err != nil {
			return nil, err
		}
	}
	if d.Demand, err = r.table(ctx, results["demand"]); err == nil {
		d.Counts, err = r.table(ctx, results["counts"])
	}
	d.load()
	return d, err
}

// load computes the share of every expert and the fraction of dropped pairs.
func (d *Done) load() {
	if len(d.Demand) == 0 {
		return
	}
	d.Load = make([]float64, len(d.Demand[0]))
	for l, row := range d.Demand {
		sum := int64(0)
		for _, n := range row {
			sum += n
		}
		for e, n := range row {
			d.Load[e] += float64(n) / float64(max(sum, 1)) / float64(len(d.Demand))
			if d.Counts != nil {
				d.Drops += int(n - d.Counts[l][e])
			}
		}
	}
}

// DivergedError reports a step with a non-finite loss or gradient.
type DivergedError struct {
	Step       int
	Loss, Norm float64 // Norm is 0 if the step does not clip gradients
	// Cause is the error of a kernel or a router; nil if the step was completed.
	Cause error
	// Untrained is set if no step had been completed before.
	Untrained bool
	Remedies
}

func (d *DivergedError) Error() string {
	advice, also := "training has diverged; lower "+cmp.Or(d.Lower, "the learning rate"), ", or "
	if d.Untrained {
		advice, also = "nothing was learned before, so the weights to begin with, the batch or a coefficient of the loss is not finite, or too large", "; "
	}
	var number *runtime.NotFiniteError
	if errors.As(d.Cause, &number) {
		return fmt.Sprintf("step %d: %s: %v", d.Step, advice, d.Cause)
	}
	advice += also + cmp.Or(d.Find, "set runtime.Options.Finite") + " to see which kernel made the first NaN or infinity"
	if d.Cause != nil {
		return fmt.Sprintf("step %d: %s: %v", d.Step, advice, d.Cause)
	}
	return fmt.Sprintf("step %d: loss %v, gradient norm %v: %s", d.Step, d.Loss, d.Norm, advice)
}

func (d *DivergedError) Unwrap() error { return d.Cause }

// diverged returns an error if a step's numbers are not finite.
func (l *Loop) diverged(d *Done) error {
	if math.Abs(d.Loss) <= math.MaxFloat64 && math.Abs(d.Norm) <= math.MaxFloat64 {
		return nil
	}
	return &DivergedError{Step: d.Index, Loss: d.Loss, Norm: d.Norm, Untrained: d.Index == 1, Remedies: l.Remedies}
}

// explain adds the step number to an error. If non-finite numbers are the cause, it also says how to proceed.
// Weights may become infinite or NaN after a non-finite loss; the router is then the first to notice.
func (l *Loop) explain(n int, err error, untrained bool) error {
	var failed *runtime.Error
	var number *runtime.NotFiniteError
	if errors.As(err, &number) || errors.As(err, &failed) && failed.Name == ops.Router.String() {
		return &DivergedError{Step: n, Cause: err, Untrained: untrained, Remedies: l.Remedies}
	}
	return fmt.Errorf("step %d: %w", n, err)
}
