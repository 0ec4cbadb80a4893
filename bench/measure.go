package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// greeting is a peer's first line.
type greeting struct {
	Peer, Version, Failure string
}

// opening asks for opening a workload.
type opening struct {
	Op        string         `json:"op"`
	Workload  string         `json:"workload"`
	Dir       string         `json:"dir"`
	Params    map[string]any `json:"params"`
	Tolerance float64        `json:"tolerance"`
	Patience  float64        `json:"patience"` // seconds until gomoe stops waiting
}

// timing asks for timing one round.
type timing struct {
	Op      string  `json:"op"`
	Seconds float64 `json:"seconds"`
}

// closing ends a workload and makes the peer free its memory.
type closing struct {
	Op string `json:"op"`
}

// formulation is one way to compute a workload, and its outcome.
type formulation struct {
	Name    string  `json:"name"`
	Error   float64 `json:"error"`             // largest difference relative to the largest element
	NS      int64   `json:"ns,omitempty"`      // of the fastest run during the choice
	Failure string  `json:"failure,omitempty"` // the reason for rejecting it
}

// answer is a peer's line after an opening or a timing.
type answer struct {
	Formulations []formulation `json:"formulations"`
	Best         string        `json:"best"`
	Unsupported  bool          `json:"unsupported"`
	Failure      string        `json:"failure"`
	NS           []int64       `json:"ns"`
	Resident     int64         `json:"resident"` // bytes of its own held in memory by the peer; 0 if unknown
}

// child is a peer's process.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	lines   chan line
	patient time.Duration // the timeout for an answer
	once    sync.Once
	exit    error // its exit status
	greeting
}

// wait waits for the child to end. Its stdout must be closed.
func (c *child) wait() error {
	c.once.Do(func() { c.exit = c.cmd.Wait() })
	return c.exit
}

type line struct {
	text []byte
	err  error
}

// crashed is the error of a peer ended by a signal.
type crashed struct{ signal os.Signal }

func (e *crashed) Error() string {
	if e.signal == syscall.SIGKILL {
		return "the peer was killed, as the system does when memory ends"
	}
	return "the peer crashed: " + e.signal.String()
}

// start runs a peer and reads its greeting. Its stderr is shown if verbose.
func start(cmd *exec.Cmd, patient time.Duration, verbose bool) (*child, error) {
	c := &child{cmd: cmd, lines: make(chan line), patient: patient}
	if verbose {
		cmd.Stderr = os.Stderr
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go c.read(out)
	if err := c.receive(&c.greeting); err != nil {
		return nil, errors.Join(err, c.kill())
	}
	if c.Failure != "" {
		return nil, errors.Join(errors.New(c.Failure), c.kill())
	}
	return c, nil
}

// read reads lines until the child closes its stdout or nobody listens any more.
func (c *child) read(out io.Reader) {
	defer close(c.lines)
	r := bufio.NewReader(out)
	for {
		text, err := r.ReadBytes('\n')
		c.lines <- line{text, err}
		if err != nil {
			return
		}
	}
}

func (c *child) receive(to any) error {
	select {
	case l := <-c.lines:
		if l.err != nil {
			return c.ended(l.err)
		}
		return json.Unmarshal(l.text, to)
	case <-time.After(c.patient):
		return fmt.Errorf("bench: the peer has not answered for %v", c.patient)
	}
}

// ask sends a request and waits for the answer.
func (c *child) ask(request any) (answer, error) {
	var a answer
	text, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	if _, err := c.in.Write(append(text, '\n')); err != nil {
		return a, c.ended(err)
	}
	return a, c.receive(&a)
}

// ended returns the error of a child that has closed its stdin or stdout, after waiting for the child to end.
func (c *child) ended(why error) error {
	over := make(chan struct{})
	go func() {
		<-c.drained()
		c.wait() // its error is in the process state
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(10 * time.Second): // continue without them
		return fmt.Errorf("bench: the peer ended: %w", why)
	}
	if s, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return &crashed{s.Signal()}
	}
	return fmt.Errorf("bench: the peer ended: %s", c.cmd.ProcessState)
}

// stop asks the child to end, and kills it if it does not.
func (c *child) stop() error {
	c.in.Close()
	select {
	case <-c.drained():
		return c.wait()
	case <-time.After(10 * time.Second):
		return c.kill()
	}
}

func (c *child) kill() error {
	c.in.Close()
	err := c.cmd.Process.Kill()
	<-c.drained()
	c.wait() // reports the signal just sent
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// drained is closed after the child closes its stdout.
func (c *child) drained() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		for range c.lines {
		}
		close(done)
	}()
	return done
}

// peakTarget is the target relative to the processor's peak: 0.85 of it, because no product reaches the peak.
const peakTarget = 1 / 0.85

// memoryTarget is the target relative to reading the weights once: 0.9 of that speed.
const memoryTarget = 1 / 0.9

// bench is one run of the command.
type bench struct {
	crew    *crew
	rounds  int
	seconds float64 // of each side in a round
	dir     string  // holds the arrays of the current workload
	log     func(format string, a ...any)
}

// contender is a peer taking part in a workload.
type contender struct {
	*child
	row    *row
	rounds []round
}

// run measures one workload and returns a row per peer.
func (b *bench) run(w workload, threads int) ([]row, error) {
	b.log("%s, %d threads", w.name, threads)
	rows := make([]row, len(w.peers))
	for i, name := range w.peers {
		rows[i] = row{Workload: w.name, Title: w.title, Threads: threads, Peer: name, Target: w.target, Flop: w.flop, Tokens: w.tokens}
		switch name {
		case peakName:
			rows[i].Target = peakTarget
		case memoryName:
			rows[i].Target = memoryTarget
		}
	}
	s, err := w.open(threads)
	if err != nil {
		for i := range rows {
			rows[i].Note = "gomoe: " + err.Error()
		}
		b.log("  %v", err)
		return rows, nil
	}
	defer s.close()
	dir := filepath.Join(b.dir, strings.NewReplacer("/", "_", "=", "").Replace(w.name))
	defer os.RemoveAll(dir)
	if err := s.dump(dir); err != nil {
		return nil, err
	}

	var contenders []*contender
	for i := range rows {
		c, err := b.enter(w, threads, dir, s, &rows[i])
		if err != nil {
			rows[i].Note = err.Error()
			b.log("  %s: %v", rows[i].Peer, err)
			continue
		}
		contenders = append(contenders, c)
		b.log("  %s: %s", rows[i].Peer, rows[i].Formulation)
	}

	own, err := b.interleave(s, contenders, threads)
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w", w.name, err)
	}
	for _, c := range contenders { // frees the memory for the next workload
		if _, err := c.ask(closing{"close"}); err != nil {
			b.crew.lose(c.row.Peer, threads)
		}
	}
	for i := range rows {
		rows[i].Gomoe = summarize(own)
		if s.resident != nil {
			rows[i].GomoeResident = s.resident()
		}
	}
	for _, c := range contenders {
		switch {
		case c.row.Note != "":
		case s.absent != nil:
			c.row.Other, c.row.Note = summarize(c.rounds), "gomoe: "+s.absent.Error()
			b.log("  %-22s %s; no gomoe: %v", c.row.Peer, duration(c.row.Other.Median), s.absent)
		default:
			c.row.Other, c.row.Ratio = summarize(c.rounds), median(ratios(own, c.rounds))
			b.log("  %-22s %s, gomoe %s: ratio %.2f, of the fastest runs %.2f",
				c.row.Peer, duration(c.row.Other.Median), duration(c.row.Gomoe.Median), c.row.Ratio, c.row.Gomoe.Best/c.row.Other.Best)
		}
	}
	return rows, nil
}

// interleave runs the rounds and returns gomoe's.
func (b *bench) interleave(s *subject, contenders []*contender, threads int) ([]round, error) {
	if s.absent == nil { // warm up, and collect other workloads' garbage, before measuring
		if _, err := spin(s.step, b.seconds/2); err != nil {
			return nil, err
		}
	}
	runtime.GC()
	var own []round
	for range b.rounds {
		if s.absent == nil {
			r, err := spin(s.step, b.seconds)
			if err != nil {
				return nil, err
			}
			own = append(own, r)
		}
		for _, c := range contenders {
			if c.row.Note != "" {
				continue
			}
			a, err := c.ask(timing{"time", b.seconds})
			switch {
			case err != nil:
				c.row.Note = err.Error()
				b.crew.lose(c.row.Peer, threads)
			case a.Failure != "" || len(a.NS) == 0:
				c.row.Note = "no time: " + a.Failure
			default:
				c.row.OtherResident = a.Resident
				c.rounds = append(c.rounds, a.NS)
			}
		}
	}
	return own, nil
}

// enter opens the workload at a peer. After a crash, the peer is restarted with its next fallback. A killed peer,
// such as one killed by the system for lack of memory, is not restarted.
func (b *bench) enter(w workload, threads int, dir string, s *subject, r *row) (*contender, error) {
	for {
		c, err := b.tryToEnter(w, threads, dir, s, r)
		crash := new(crashed)
		if !errors.As(err, &crash) || crash.signal == syscall.SIGKILL {
			return c, err
		}
		next := b.crew.fallBack(r.Peer, threads)
		if next == "" {
			return nil, err
		}
		r.Crash = fmt.Sprintf("%s; started again with %s", crash, next)
		b.log("  %s: %s", r.Peer, r.Crash)
	}
}

// tryToEnter opens the workload at a peer, turning errors into notes in its row.
func (b *bench) tryToEnter(w workload, threads int, dir string, s *subject, r *row) (*contender, error) {
	m, err := b.crew.member(r.Peer, threads)
	if err != nil {
		return nil, err
	}
	r.Version = m.Version
	params := maps.Clone(w.params)
	if s.file != "" {
		params["file"] = s.file
	}
	a, err := m.ask(opening{"open", w.peer, dir, params, w.tolerance, m.patient.Seconds()})
	if err != nil {
		b.crew.lose(r.Peer, threads)
		return nil, err
	}
	r.Formulations = a.Formulations
	switch at := slices.IndexFunc(a.Formulations, func(f formulation) bool { return f.Name == a.Best }); {
	case a.Unsupported:
		return nil, errors.New("cannot compute this")
	case a.Failure != "":
		return nil, errors.New(a.Failure)
	case at < 0:
		return nil, errors.New("the peer named no formulation")
	default:
		r.Formulation, r.Error = a.Best, a.Formulations[at].Error
	}
	return &contender{child: m, row: r}, nil
}

// spin runs step for at least the given number of seconds, and at least once.
func spin(step func() error, seconds float64) (round, error) {
	var r round
	for begin := time.Now(); len(r) == 0 || time.Since(begin).Seconds() < seconds; {
		t := time.Now()
		if err := step(); err != nil {
			return nil, err
		}
		r = append(r, time.Since(t).Nanoseconds())
	}
	return r, nil
}
