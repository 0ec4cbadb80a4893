package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

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
