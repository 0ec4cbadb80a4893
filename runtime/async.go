package runtime

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
)

// lane runs a rank's collectives in the order of the plan, on their own goroutine, while
// the rank runs its kernels. The rank starts collectives and waits for them; the lane
// counts both. After the first error it starts no other collective of the step.
type lane struct {
	rank *rank
	args exec.Args // reused by every collective
	// due has an entry for every instruction and one for the end of the step: the number
	// of collectives that must complete before it.
	due  []int
	work chan int    // instructions to start, buffered for a whole step
	done chan result // buffered for a whole step
	// Of the current step:
	started, joined int
	begun           bool
	worker          *worker[laneStep]
}

// laneStep is one step of the lane's goroutine.
type laneStep struct {
	ctx  context.Context
	opts Options
}

// end stands in for an instruction's index and ends the step.
const end = -1

// result is the outcome of the collective at an instruction.
type result struct {
	index int
	err   error
}

// newLane returns the lane of r, or nil if the plan waits for every collective at its own
// instruction.
func newLane(r *rank) *lane {
	n := len(r.plan.Instrs)
	l := &lane{rank: r, args: r.args, due: make([]int, n+1)}
	l.args.Scratch = new(exec.Scratch)
	started := 0
	for i := range r.plan.Instrs {
		in := &r.plan.Instrs[i]
		if in.Wait > 0 {
			started++
			l.due[in.Wait] = started
		} else if in.Collectives() > 0 {
			l.due[i] = started
		}
	}
	if started == 0 {
		return nil
	}
	l.due[n] = started
	for i := 1; i <= n; i++ {
		l.due[i] = max(l.due[i], l.due[i-1])
	}
	l.work, l.done = make(chan int, started+1), make(chan result, started+1)
	l.worker = newWorker(l.run)
	return l
}

// overlapped runs the plan with collectives concurrent with kernels.
//
// After an error that all ranks reach at the same instruction, overlapped waits for the
// collectives that were already started, because the other ranks wait for them too. After
// any other error it leaves them to settle, which the session calls once the whole job
// knows of the error.
func (r *rank) overlapped(ctx context.Context, opts Options) error {
	l := r.lane
	l.begin(ctx, opts)
	err := r.beside(ctx, opts)
	if agreed(err) {
		if first := l.join(l.started); first != nil {
			err = first
		}
	}
	return err
}

// beside runs the kernels, starts the collectives and waits for them.
func (r *rank) beside(ctx context.Context, opts Options) error {
	l := r.lane
	for i := range r.plan.Instrs {
		if ctx.Err() != nil {
			return r.fail(i, context.Cause(ctx))
		}
		if err := l.await(i, opts); err != nil {
			return err
		}
		in := &r.plan.Instrs[i]
		if in.Wait > 0 {
			l.started++
			l.work <- i
			continue
		}
		began := time.Now()
		if in.Communicates() {
			if err := l.exchange(ctx, i); err != nil {
				return r.fail(i, err)
			}
			opts.Trace.addCollective(r, in, began)
			continue
		}
		if err := r.exec(ctx, in, nil); err != nil {
			return r.fail(i, err)
		}
		opts.Trace.add(r, in, began)
	}
	return l.await(len(r.plan.Instrs), opts)
}

// begin starts a step.
func (l *lane) begin(ctx context.Context, opts Options) {
	l.started, l.joined, l.begun = 0, 0, true
	l.worker.call(laneStep{ctx, opts})
}

// run runs the collectives that arrive on l.work until end arrives.
func (l *lane) run(s laneStep) {
	ctx, opts := s.ctx, s.opts
	var failed error
	for i := range l.work {
		if i == end {
			l.done <- result{end, nil}
			return
		}
		began := time.Now()
		if failed == nil {
			if err := l.exchange(ctx, i); err != nil {
				failed = l.rank.fail(i, err)
			} else {
				opts.Trace.addCollective(l.rank, &l.rank.plan.Instrs[i], began)
			}
		}
		l.done <- result{i, failed}
	}
}

// exchange runs the collective at instruction i as rank.exec does.
func (l *lane) exchange(ctx context.Context, i int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v\n%s", p, debug.Stack())
		}
	}()
	in, a := &l.rank.plan.Instrs[i], &l.args
	a.In, a.Out = a.In[:0], a.Out[:0]
	a.Scratch.Reset()
	for _, b := range in.In {
		a.In = append(a.In, l.rank.bufs[b])
	}
	for _, b := range in.Out {
		a.Out = append(a.Out, l.rank.bufs[b])
	}
	c := collective.Call{Op: in.Name(), Seq: l.rank.seq + in.Seq, DType: in.DType, Bytes: in.Bytes, Pos: in.Pos, Pairs: in.Pairs}
	return in.Exchange(ctx, l.rank.groups[i], c, a)
}

// await waits for the collectives on which instruction i depends. It returns the error of
// the first completed collective that failed.
func (l *lane) await(i int, opts Options) error {
	if l.joined < l.due[i] && len(l.done) < l.due[i]-l.joined {
		defer opts.Trace.addWait(l.rank.comm.Rank(), time.Now())
	}
	return l.join(max(l.due[i], l.joined+len(l.done)))
}

// join waits until n collectives of the step are complete and returns the first
// error.
func (l *lane) join(n int) error {
	for l.joined < n {
		r := l.next()
		l.joined++
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// next waits for the next collective to complete. Meanwhile others may use the rank's
// processor.
func (l *lane) next() result {
	if len(l.done) == 0 {
		l.rank.args.Crew.Leave()
		defer l.rank.args.Crew.Enter()
	}
	return <-l.done
}

// settle ends the step, returning once its last collective has ended. A collective can
// still be running only after a failure known to the whole job. The step's context has
// then ended, which stops the collective.
func (l *lane) settle() {
	if l == nil || !l.begun {
		return
	}
	l.begun = false
	l.work <- end
	for r := range l.done {
		if r.index == end {
			return
		}
	}
}

// end ends the goroutine.
func (l *lane) end() {
	if l != nil {
		l.worker.end()
	}
}
