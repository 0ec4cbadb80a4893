package report

import (
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// ProgressOptions configures how often Progress writes. The zero value suits both a terminal and a log.
type ProgressOptions struct {
	// Every writes a line at each multiple of this number of steps; 0 leaves it to the interval. A bar ignores it.
	Every int
	// Interval writes a line after this time has passed since the last one; 0 means 5 s, negative means never. A bar
	// ignores it.
	Interval time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

const (
	lineInterval = 5 * time.Second
	barInterval  = 100 * time.Millisecond // faster than people read, slower than a terminal draws
	barFrame     = 12                     // cells around the bar: percentage, brackets, spaces; the last one stays free
)

// Progress shows the progress of a run: on a terminal as a bar redrawn in place, elsewhere as lines. The first and
// the last step, a step with a held-out loss and the first non-finite loss always write a line, or redraw the bar.
type Progress struct {
	out   io.Writer
	opts  ProgressOptions
	width func() int               // width of the terminal in cells; nil if there is no terminal
	bar   *progressbar.ProgressBar // nil before the first step, and without a terminal
	cells int                      // width of the bar itself

	first   time.Time // end of the first step
	seen    int       // steps so far
	written time.Time // time of the last line, or of the last redraw
	smooth  Smoother
	rate    throughput
	bad     bool // a non-finite loss has been shown
	open    bool // the cursor is on the line of a bar
	full    bool // the bar is full and no longer redrawn
	err     error
}

// NewProgress returns a Progress writing to out. It draws a bar if out is a terminal.
func NewProgress(out io.Writer, opts ProgressOptions) *Progress {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Interval == 0 {
		opts.Interval = lineInterval
	}
	p := &Progress{out: out, opts: opts}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.width = func() int {
			width, _, err := term.GetSize(int(f.Fd()))
			if err != nil || width <= 0 {
				return 80
			}
			return width
		}
	}
	return p
}

// Earlier adds the loss of a step done by an earlier run to the moving mean. It writes nothing.
func (p *Progress) Earlier(s Step) { p.smooth.Add(s.Loss) }

// Step reports a step. After a write error, every call returns that first error.
func (p *Progress) Step(s Step) error {
	now := p.opts.Now()
	p.seen++
	if p.seen == 1 {
		p.first = now
	}
	smoothed := p.smooth.Add(s.Loss)
	p.rate.add(s)
	alarm := !finite(s.Loss) && !p.bad
	p.bad = p.bad || alarm
	due := p.seen == 1 || s.Index >= s.Total || s.HeldOut != 0 || alarm
	since := now.Sub(p.written)
	if p.width != nil {
		due = due || since >= barInterval
	} else {
		due = due || p.opts.Every > 0 && s.Index%p.opts.Every == 0 || p.opts.Interval > 0 && since >= p.opts.Interval
	}
	if !due || p.err != nil {
		return p.err
	}
	p.written = now
	eta := p.eta(s, now)
	text := position(s) + line(s, smoothed, p.rate.perSecond(), eta)
	if p.width == nil {
		p.write(text + "\n")
		return p.err
	}
	if s.HeldOut != 0 || alarm {
		p.Note(text) // stays on screen, above the bar
	}
	p.draw(s, smoothed, eta)
	return p.err
}

// Note writes a separate line: above the bar if there is one, below it after the last step. It returns the same
// errors as Step.
func (p *Progress) Note(text string) error {
	switch {
	case p.open && p.full:
		p.write("\n")
	case p.open:
		p.write("\r\x1b[2K")
	}
	p.open = false
	p.write(text + "\n")
	return p.err
}

// Close ends the bar's line. Call it before other output to the terminal, also after an interrupted run. The writer
// stays open. An error already returned by Step is not returned again.
func (p *Progress) Close() error {
	before := p.err
	if p.open {
		p.write("\n")
		p.open = false
	}
	if before != nil {
		return nil
	}
	return p.err
}

func (p *Progress) write(text string) {
	if p.err == nil {
		if _, err := io.WriteString(p.out, text); err != nil {
			p.err = fmt.Errorf("report: progress: %w", err)
		}
	}
}

// eta estimates the time for the remaining steps from the pace since the first step, including the time between
// steps. The first step is slower than the others, so it counts only if it is the only one.
func (p *Progress) eta(s Step, now time.Time) time.Duration {
	left := max(0, s.Total-s.Index)
	if p.seen < 2 {
		return time.Duration(left) * s.Elapsed
	}
	return time.Duration(float64(left) * float64(now.Sub(p.first)) / float64(p.seen-1))
}

// throughput is the number of tokens per second over about the last 20 steps.
type throughput struct{ tokens, seconds float64 }

func (t *throughput) add(s Step) {
	t.tokens = smoothing*t.tokens + float64(s.Tokens)
	t.seconds = smoothing*t.seconds + s.Elapsed.Seconds()
}

// perSecond returns NaN before any time has passed.
func (t *throughput) perSecond() float64 {
	if t.seconds <= 0 {
		return math.NaN()
	}
	return t.tokens / t.seconds
}
