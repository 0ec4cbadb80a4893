package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/gomoe/gomoe/internal/openfiles"
)

// Run starts the ranks and returns when all have ended, with the job's exit status: 0, or
// the status of the first rank that failed, which is 128 plus the signal's number if a
// signal ended it. The reason of a failure is written to o.Stderr. A failing job is
// restarted up to o.Restarts times. An error gives the reason why the job was not
// started, or not completely; nothing of it is left running then. It is an *OptionError
// if o is invalid.
//
// The end of ctx ends the ranks like SIGTERM.
func Run(ctx context.Context, o Options) (int, error) {
	o, err := o.complete()
	if err != nil {
		return 0, err
	}
	first := &job{Options: o, misfits: map[int]bool{}}
	j := first
	status, err := j.once(ctx)
	for err == nil && j.stopped == nil && (j.first != nil || j.short) {
		next := &job{Options: o, misfits: first.misfits, restart: j.restart, before: status}
		switch {
		case j.misfit():
			j.misfits[len(j.Hosts)], next.again = true, true
			if next.most(len(j.Hosts)) == 0 { // it would end in the same way
				return status, openfiles.Explain(first.remove())
			}
		case j.restart == o.Restarts:
			return status, openfiles.Explain(first.remove())
		default:
			next.restart++
		}
		j = next
		j.Command = first.Command // the program built by go run
		status, err = j.once(ctx)
		err = errors.Join(err, j.remove())
	}
	return status, openfiles.Explain(errors.Join(err, first.remove()))
}

// once runs the job once.
func (j *job) once(ctx context.Context) (status int, err error) {
	j.out, j.err = outputs(j.Stdout, j.Stderr)
	if j.pause(ctx) && j.reach(ctx) {
		if err = j.prepare(ctx); err == nil {
			status, err = j.run(ctx)
		}
	} else if status = j.before; j.stopped != nil {
		before := "start"
		if j.restart > 0 {
			before = "restart"
		}
		j.err.say("gomoe launch: ended by %v before the %s", j.stopped, before)
		if n, ok := j.stopped.(syscall.Signal); ok && status == 0 {
			status = 128 + int(n) // nothing has run
		}
	}
	if j.release(); err != nil {
		j.hurry(drain)
	}
	if complete := j.flush(); !complete && status == 0 {
		status = 1
	}
	return status, err
}

// The first restart comes after firstPause, and every later one after twice the time, up
// to longestPause: a rebooting machine needs minutes.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// pause waits before a restart, reporting whether to restart: a signal and the end of ctx
// prevent it.
func (j *job) pause(ctx context.Context) bool {
	if j.restart == 0 || j.again {
		return true
	}
	d := min(firstPause<<min(j.restart-1, 10), longestPause)
	j.err.say("gomoe launch: the job starts again in %v, restart %d of %d", d, j.restart, j.Restarts)
	select {
	case <-time.After(d):
		return true
	case j.stopped = <-j.Signals:
	case <-ctx.Done():
		j.stopped = syscall.SIGTERM
	}
	return false
}

// job is one run of the ranks.
type job struct {
	Options
	meeting
	restart  int          // 0 for the first run
	before   int          // the exit status of the run before a restart
	again    bool         // the run before did not take place: its ranks do not run on this number of hosts
	short    bool         // too few hosts answer
	misfits  map[int]bool // numbers of hosts on which the ranks do not run
	out, err *output      // may be the same
	dir      string       // folder of the built program; "" if none was built
	guard    *guard
	// lives are the writing ends of pipes, one per local rank. They are closed when the
	// launcher ends. A single pipe for all ranks would share its file flags, and
	// starting a program makes such files blocking.
	lives   []*os.File
	on      [][]int // the processors of each rank, if it may not run on all
	ranks   []*process
	ends    chan ended
	ended   []ended
	first   *ended    // the failure that ended the job
	told    time.Time // time at which the others were told to end
	stopped os.Signal
}

// prepare does everything that can fail before a rank is started.
func (j *job) prepare(ctx context.Context) error {
	local := slices.ContainsFunc(j.places(meeting{}), func(p place) bool { return p.local })
	remote := slices.ContainsFunc(j.places(meeting{}), func(p place) bool { return !p.local })
	if j.NUMA {
		var err error
		if j.on, err = j.bind(j.places(meeting{})); err != nil {
			return err
		}
	}
	g, ok, err := parseGoRun(j.Command)
	switch {
	case err != nil:
		return err
	case ok && remote:
		return errors.New("launch: go run builds on this machine only; build the program, put it on all hosts at the same path, and launch that")
	case ok:
		if j.dir, err = os.MkdirTemp("", "gomoe-launch-"); err != nil {
			return fmt.Errorf("launch: a folder for the program that go run builds: %w", err)
		}
	}
	if j.guard, err = newGuard(j.dir); err != nil {
		return err
	}
	if ok {
		if err := j.build(ctx, g); err != nil {
			return err
		}
	}
	if local {
		if info, err := os.Stat(j.Dir); err != nil || !info.IsDir() {
			return &OptionError{fmt.Errorf("launch: no folder %s to run in", j.Dir)}
		}
		path := j.Command[0]
		if filepath.Base(path) != path && !filepath.IsAbs(path) {
			path = filepath.Join(j.Dir, path)
		}
		if path, err = exec.LookPath(path); err != nil {
			return fmt.Errorf("launch: command %s: %w", j.Command[0], err)
		}
		if !remote {
			j.Command = append([]string{path}, j.Command[1:]...)
		}
	}
	if remote {
		if _, err := exec.LookPath(j.Shell[0]); err != nil {
			return fmt.Errorf("launch: %s, to reach other machines: %w", j.Shell[0], err)
		}
	}
	j.meeting, err = j.meet()
	return err
}

// build builds the program of a "go run" command. A signal ends that, too.
func (j *job) build(ctx context.Context, g goRun) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	built := make(chan struct{})
	defer close(built)
	go func() {
		select {
		case s := <-j.Signals:
			cancel(fmt.Errorf("ended by %v", s))
		case <-built:
		}
	}()
	if j.Command, err = g.build(ctx, j.Command[0], j.Dir, j.dir, j.err); err != nil && ctx.Err() != nil {
		err = fmt.Errorf("launch: go build: %w", context.Cause(ctx))
	}
	return err
}

// release releases the resources inherited by ranks.
func (j *job) release() {
	for _, f := range j.lives {
		f.Close()
	}
	if j.listener != nil {
		j.listener.Close()
	}
}

// remove ends the guard and removes the built program.
func (j *job) remove() error {
	if j.guard != nil {
		j.guard.close()
	}
	if j.dir != "" {
		return os.RemoveAll(j.dir)
	}
	return nil
}

// run starts the ranks and waits for them.
func (j *job) run(ctx context.Context) (int, error) {
	runtime.LockOSThread() // see dieWithParent
	defer runtime.UnlockOSThread()
	places := j.places(j.meeting)
	j.ends = make(chan ended, len(places))
	var failed error
	for _, p := range places {
		if err := j.start(p); err != nil {
			failed = fmt.Errorf("launch: rank %d: %w", p.job.Rank, err)
			break
		}
	}
	if j.listener != nil {
		j.listener.Close() // rank 0 has it now
	}
	if failed != nil {
		for _, p := range j.ranks {
			p.kill()
		}
		j.hurry(drain)
		for len(j.ended) < len(j.ranks) {
			j.ended = append(j.ended, <-j.ends)
		}
		return 0, failed
	}
	j.watch(ctx)
	return j.report(), nil
}

// start starts one rank.
func (j *job) start(p place) error {
	prefix := fmt.Sprintf("[%d]", p.job.Rank)
	proc := &process{place: p, copied: make(chan struct{}), out: &lines{pass: j.out.add, prefix: prefix}, err: &lines{pass: j.err.add, prefix: prefix}}
	if j.on != nil {
		proc.on = j.on[p.job.Rank]
	}
	proc.group.guard = j.guard
	command, env, dir, text := j.Command, []string(nil), j.Dir, ""
	var files []*os.File
	if p.local {
		if inherits {
			r, w, err := os.Pipe()
			if err != nil {
				return fmt.Errorf("launch: %w", err)
			}
			defer r.Close()
			j.lives = append(j.lives, w)
			files = append(files, r)
			proc.job.Lifeline = 2 + len(files)
		}
		if p.job.Rank == 0 && j.listener != nil && inherits {
			f, err := j.listener.File()
			if err != nil {
				return err
			}
			defer f.Close()
			files = append(files, f)
			proc.job.Listener = 2 + len(files)
		}
		env = j.environment(proc.place, j.meeting, j.restart)
	} else {
		text = script(p, j.environment(p, j.meeting, j.restart), j.Dir, j.Command, j.Grace)
		command = append(slices.Clone(j.Shell), p.host.SSH, loader)
		dir = ""
	}
	if err := proc.start(command, env, dir, files, text); err != nil {
		return err
	}
	j.ranks = append(j.ranks, proc)
	go func() { j.ends <- proc.wait() }()
	return nil
}

// watch returns when all ranks have ended.
func (j *job) watch(ctx context.Context) {
	var ending, killing <-chan time.Time
	done, killed := ctx.Done(), false
	end := func(s os.Signal, grace bool) {
		for _, p := range j.living() {
			p.signal(s)
		}
		if grace && killing == nil {
			killing = time.After(j.Grace)
		}
	}
	kill := func() {
		killed = true
		for _, p := range j.living() {
			p.kill()
		}
	}
	for len(j.ended) < len(j.ranks) {
		select {
		case e := <-j.ends:
			j.ended = append(j.ended, e)
			if !e.ok() && j.first == nil {
				j.first = &e
				if j.stopped == nil && len(j.living()) > 0 {
					j.err.say("gomoe launch: %s; the others are ended", e)
				}
				if ending == nil && !j.wasTold(e) {
					ending = time.After(j.Settle)
				}
				j.hurry(drain)
			}
		case <-ending:
			ending, j.told = nil, time.Now()
			end(syscall.SIGTERM, true)
		case <-killing:
			killing = nil
			if living := j.living(); len(living) > 0 && !killed {
				j.err.say("gomoe launch: %s did not end within %v and %s killed", names(living), j.Grace, are(living))
				kill()
			}
		case s := <-j.Signals:
			if j.stopped != nil {
				kill()
				j.hurry(impatient)
				continue
			}
			j.stopped = s
			j.hurry(drain)
			// A user can repeat an interrupt, but other signals are not repeated.
			end(s, s != os.Interrupt)
		case <-done:
			done = nil
			if j.stopped == nil {
				j.stopped = syscall.SIGTERM
			}
			end(syscall.SIGTERM, true)
			j.hurry(drain)
		}
	}
}

// wasTold reports whether a rank was ended by the signal that all ranks got, so that the
// others are about to end as well. A second signal would end them at once.
func (j *job) wasTold(e ended) bool {
	s, ok := j.stopped.(syscall.Signal)
	return ok && e.signalled() == int(s)
}

// impatient is the time that the launcher waits for a reader after a second signal.
const impatient = 200 * time.Millisecond

// hurry makes both outputs give up on a reader that does not read for d.
func (j *job) hurry(d time.Duration) {
	j.out.hurry(d)
	j.err.hurry(d)
}

// flush returns when all output has been written, or was given up, reporting whether all
// was written. A job without failure waits for its readers without limit. A signal ends
// that.
func (j *job) flush() (complete bool) {
	complete, written := true, make(chan struct{})
	go func() {
		defer close(written)
		for _, p := range j.ranks {
			<-p.copied
		}
		j.out.close()
		<-j.out.done
		if text := j.out.missing(); text != "" {
			complete = false
			j.err.say("gomoe launch: %s", text)
		}
		j.err.close()
		<-j.err.done
		complete = j.err.missing() == "" && complete
	}()
	for {
		select {
		case <-written:
			return complete
		case s := <-j.Signals:
			j.stopped = s // there is no restart
			j.hurry(impatient)
		}
	}
}

// living returns the ranks that have not ended.
func (j *job) living() []*process {
	return slices.DeleteFunc(slices.Clone(j.ranks), func(p *process) bool {
		return slices.ContainsFunc(j.ended, func(e ended) bool { return e.process == p })
	})
}

func names(ps []*process) string {
	s := "rank "
	if len(ps) > 1 {
		s = "ranks "
	}
	for i, p := range ps {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprint(p.job.Rank)
	}
	return s
}

func are(ps []*process) string {
	if len(ps) > 1 {
		return "are"
	}
	return "is"
}

// culprit returns the rank that made the job fail. Other ranks fail as a consequence, and
// the launcher may notice them first.
func (j *job) culprit() ended {
	f := *j.first
	if f.elsewhere() {
		// The first one that does not blame another rank: it reports the cause, or it
		// does not end by itself because it is stopped.
		for _, e := range j.ended {
			if !e.ok() && !e.elsewhere() {
				f = e
				break
			}
		}
	}
	// Among the ranks that ended before any was told to end, a killed one counts as
	// first.
	until := j.first.end().Add(j.Settle)
	for _, e := range j.ended {
		if e.signalled() > 0 && f.signalled() == 0 && e.end().Before(until) {
			f = e
		}
	}
	return f
}

// report names the rank that failed first, returning the job's exit status.
func (j *job) report() int {
	if j.first == nil {
		return 0
	}
	first := *j.first
	f := j.culprit()
	j.first = &f
	if j.stopped != nil {
		j.err.say("gomoe launch: ended by %v; %s", j.stopped, f)
		return f.status()
	}
	speaks := f
	if !j.told.IsZero() && f.end().After(j.told) && first.elsewhere() {
		j.err.say("gomoe launch: FAILED: rank %d did not end when the others had failed because of another rank; %s after %v", f.job.Rank, f, f.took.Round(10*time.Millisecond))
		speaks = first // a stopped rank reports nothing
	} else {
		j.err.say("gomoe launch: FAILED: %s after %v", f, f.took.Round(10*time.Millisecond))
	}
	what, last := "standard error", speaks.err.last()
	if len(last) == 0 {
		what, last = "standard output", speaks.out.last()
	}
	if len(last) > 0 {
		j.err.say("gomoe launch: the last lines of rank %d's %s:", speaks.job.Rank, what)
		for _, l := range last {
			j.err.say("    %s", l)
		}
	}
	return f.status()
}
