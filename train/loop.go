package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/train/report"
	"github.com/gomoe/gomoe/world"
)

// Loop trains step by step: it gives each step its batch and its rate, measures the loss on other text, shows progress,
// writes metrics, and saves, so that a later run goes on. In a job of several processes all of them run the same Loop;
// the first one writes. The loss is the result of the step that is named loss.
type Loop struct {
	Steps  int // of the whole run, with those that earlier runs have done
	Rate   Schedule
	Tokens int // of a step, over all ranks
	// Batch returns the inputs of a step, such as Whole of arrays. It depends on the step's number alone, so that a run that
	// goes on has the batches of one that was not interrupted.
	Batch func(step int) (Parts, error)
	// HeldOut returns the loss on what is not trained on. It is called after every Every steps and after the last one,
	// unless it is nil or Every is 0.
	HeldOut func(context.Context) (float64, error)
	Every   int
	// After, unless it is nil, is called in every process after each step, before a save. Its error ends the run.
	After func(context.Context, *Done) error
	// Remedies are what DivergedError says: how this program has its rate lowered, and how it has the kernel named that made the
	// first number that is not finite. The zero Remedies speak of this package.
	Remedies Remedies
	// Failed, unless it is nil, is called with the error that ends the run before the picture is drawn, which takes a
	// while: who ends a job because one of its ranks has failed may not wait for that. It is not called with Ended.Unwritten.
	Failed func(error)

	Saves   Saves
	Figures Figures
}

// Remedies are words for people whose training has diverged.
type Remedies struct {
	Lower string // such as "-lr"; "" means "the learning rate"
	Find  string // such as "add -finite"; "" means "set runtime.Options.Finite"
}

// Done is a step that has been done.
type Done struct {
	report.Step
	// Results are those of the step before the state, by name. They are valid until the next step.
	Results map[string]*runtime.Array
	// Demand and Counts are the pairs of tokens and choices per layer and expert, before and after drops: the results
	// demand and counts i32[layers,experts]. They are nil if the step lacks those.
	Demand, Counts [][]int64
}

// Ended is what a Loop has done.
type Ended struct {
	Last  *Done // the last step; nil if this run has done none
	Steps int   // that are done, with those of earlier runs
	// Stopped says that the run has ended before the last step, because of stop or of Unwritten, in this process or another
	// one.
	Stopped bool
	// Unwritten is why a checkpoint, the metrics or the picture could not be written, on a full disk for example, in this
	// process or another one. It has ended the run as stop does, so that the state is that after Steps. nil if
	// all is written, or if another error has ended the run.
	Unwritten error
	History   report.History // of this run, and of earlier ones if Figures.Folder has their metrics
}

// Run trains until all steps are done, or, in order, until stop ends: the step that has begun is completed and saved.
// When ctx ends, it returns at once. r has a state: Begin makes one. Run returns what it has done, also together with an
// error, of which Ended.Unwritten is one. A loss or a norm that is not finite is an error of type *DivergedError, after the step
// has been reported.
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
	first, err := r.first()
	if err != nil {
		return e, err
	}
	out, err := l.Figures.open(first, l.Saves.done, l.Steps, &e.History)
	if err != nil {
		return e, err
	}
	out.serve()
	err = l.run(ctx, stop, r, out, e)
	e.failed(l.Saves.end(ctx, err))
	if closed := out.close(); e.Unwritten == nil { // else it may be the same error
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
	failed, err := r.any(ctx, e.Unwritten != nil)
	if failed && e.Unwritten == nil {
		e.Unwritten = &world.ElsewhereError{What: "could not write"}
	}
	if e.Unwritten != nil {
		e.Unwritten = fmt.Errorf("%d of %d steps are done: %w", e.Steps, l.Steps, e.Unwritten)
	}
	return e, errors.Join(e.Unwritten, err)
}

// failed adds an error of what could not be written.
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
		if e.Stopped, err = r.any(ctx, stop.Err() != nil || e.Unwritten != nil); err != nil {
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

// step does a step.
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

// heldOut returns the loss on held-out text, 0 if it was not measured, or is not finite.
func (d *Done) heldOut() float64 {
	if d == nil || math.IsNaN(d.HeldOut) || math.IsInf(d.HeldOut, 0) {
		return 0
	}
	return d.HeldOut
}

// Read returns what a Loop reports of a step's results, by their names: loss, which must be there, norm, balance, demand and
// counts. In a job of several processes all of them call it.
func (r *Run) Read(ctx context.Context, results map[string]*runtime.Array) (d *Done, err error) {
	if results["loss"] == nil {
		return nil, fmt.Errorf("train: %s: no result is named loss, want one that the loop reports", r.p.Name)
	}
	d = &Done{Results: results}
	for _, x := range []struct {
		name string
		to   *float64
	}{{"loss", &d.Loss}, {"balance", &d.Aux}, {"norm", &d.Norm}} { // every process in the same order
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

// load computes the share of every expert, and the drops.
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

// DivergedError is the error of a step whose loss or gradient is not finite.
type DivergedError struct {
	Step       int
	Loss, Norm float64 // Norm is 0 if the step does not clip gradients
	// Cause is what a kernel or a router has said; nil if the step was completed.
	Cause error
	// Untrained says that nothing was learned before.
	Untrained bool
	Remedies
}

func (d *DivergedError) Error() string {
	advice, also := "training has diverged; lower "+or(d.Lower, "the learning rate"), ", or "
	if d.Untrained {
		advice, also = "nothing was learned before, so the weights to begin with, the batch or a coefficient of the loss is not finite, or too large", "; "
	}
	var number *runtime.NotFiniteError
	if errors.As(d.Cause, &number) {
		return fmt.Sprintf("step %d: %s: %v", d.Step, advice, d.Cause)
	}
	advice += also + or(d.Find, "set runtime.Options.Finite") + " to see which kernel made the first NaN or infinity"
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

// explain says at which step training failed. If numbers that are not finite are the reason, it also says what to do.
// Weights may become infinite or NaN after a loss that is not finite; a router is then the first to notice.
func (l *Loop) explain(n int, err error, untrained bool) error {
	var failed *runtime.Error
	var number *runtime.NotFiniteError
	if errors.As(err, &number) || errors.As(err, &failed) && failed.Name == "router" {
		return &DivergedError{Step: n, Cause: err, Untrained: untrained, Remedies: l.Remedies}
	}
	return fmt.Errorf("step %d: %w", n, err)
}
