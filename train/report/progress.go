package report

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
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

// listed is the maximum number of experts listed individually.
const listed = 16

// position returns "step 7/100 ", with the same width for every step of a run.
func position(s Step) string {
	width := len(fmt.Sprint(s.Total))
	return fmt.Sprintf("step %*d/%d  ", width, s.Index, s.Total)
}

// line returns the rest of a step's line: loss and smoothed loss, held-out loss if measured, tokens per second,
// time left, load, drops. It is ASCII.
func line(s Step, smoothed, perSecond float64, eta time.Duration) string {
	parts := []string{fmt.Sprintf("loss %.4f (%.4f)", s.Loss, smoothed)}
	if s.HeldOut != 0 {
		parts = append(parts, fmt.Sprintf("held-out %.4f", s.HeldOut))
	}
	parts = append(parts, count(perSecond)+" tok/s")
	if s.Index < s.Total {
		parts = append(parts, "eta "+clock(eta))
	}
	if len(s.Load) > 0 {
		parts = append(parts, "experts "+loads(s.Load))
	}
	parts = append(parts, fmt.Sprintf("drops %d", s.Drops))
	return strings.Join(parts, "  ")
}

// fit shortens a step's position and line to width cells for a bar, which is a single line. It first drops the
// held-out loss, which has its own line above the bar, then the smoothed loss, then words and the shares of single
// experts; the rest is truncated.
func fit(s Step, smoothed, perSecond float64, eta time.Duration, width int) string {
	shown := s
	shown.HeldOut = 0
	left := ""
	if s.Index < s.Total {
		left = "eta " + clock(eta)
	}
	spread := ""
	if least, most := extent(s.Load); len(s.Load) > 0 {
		spread = fmt.Sprintf("load %.0f..%.0f%%", 100*least, 100*most)
	}
	where := strings.TrimPrefix(position(s), "step ")
	rest := func(loss, rate, experts string) string {
		return strings.Join([]string{where, loss, rate, left, experts, fmt.Sprintf("drops %d", s.Drops)}, " ")
	}
	experts := ""
	if len(s.Load) > 0 {
		experts = "experts " + loads(s.Load)
	}
	text := ""
	for _, text = range []string{
		position(s) + line(s, smoothed, perSecond, eta),
		position(s) + line(shown, smoothed, perSecond, eta),
		rest(fmt.Sprintf("loss %.4f", s.Loss), count(perSecond)+" tok/s", experts),
		rest(fmt.Sprintf("loss %.4f", s.Loss), count(perSecond)+" tok/s", spread),
		rest(fmt.Sprintf("loss %.3f", s.Loss), count(perSecond)+"/s", spread),
	} {
		text = strings.Join(strings.Fields(text), " ")
		if len(text) <= width {
			return text
		}
	}
	return truncate(text, width)
}

// loads returns the share of every expert in percent, or the least, the fair and the greatest share if there are
// too many experts.
func loads(load []float64) string {
	if len(load) > listed {
		least, most := extent(load)
		return fmt.Sprintf("%.1f..%.1f%% (fair %.1f%%)", 100*least, 100*most, 100/float64(len(load)))
	}
	var b strings.Builder
	for i, x := range load {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%.0f", 100*x)
	}
	return b.String() + "%"
}

// count formats x with about three digits: 0.52, 93.1, 812, 12.3k, 4.56M.
func count(x float64) string {
	switch {
	case !finite(x):
		return "?"
	case x >= 999.5e6:
		return fmt.Sprintf("%.3gG", x/1e9)
	case x >= 999.5e3:
		return fmt.Sprintf("%.3gM", x/1e6)
	case x >= 999.5:
		return fmt.Sprintf("%.3gk", x/1e3)
	}
	return fmt.Sprintf("%.3g", x)
}

// clock formats d as 42s, 3m05s or 2h07m.
func clock(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
}

// extent returns the least and the greatest of the finite values, or NaN if there are none.
func extent(values []float64) (least, most float64) {
	least, most = math.NaN(), math.NaN()
	for _, x := range values {
		if !finite(x) {
			continue
		}
		if !(least <= x) {
			least = x
		}
		if !(most >= x) {
			most = x
		}
	}
	return least, most
}

// draw draws the bar, followed by the step, on the cursor's line. It is never wider than the terminal, because a
// wrapped line cannot be redrawn in place.
func (p *Progress) draw(s Step, smoothed float64, eta time.Duration) {
	if p.bar == nil {
		p.cells = 10
		if p.width() < 100 {
			p.cells = 4 // narrow terminal
		}
		p.bar = progressbar.NewOptions(max(1, s.Total),
			progressbar.OptionSetWriter(errWriter{p}),
			progressbar.OptionSetWidth(p.cells),
			progressbar.OptionSetTheme(progressbar.ThemeASCII),
			progressbar.OptionShowDescriptionAtLineEnd(),
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionSetPredictTime(false), // the library's prediction counts from the bar's creation and uses its own clock
			progressbar.OptionUseANSICodes(true),
		)
	}
	p.open, p.full = true, s.Index >= s.Total
	p.bar.Describe(fit(s, smoothed, p.rate.perSecond(), eta, p.width()-p.cells-barFrame))
	if err := p.bar.Set(min(s.Index, max(1, s.Total))); err != nil && p.err == nil {
		p.err = fmt.Errorf("report: progress: %w", err)
	}
}

// truncate returns the first width bytes of text, which must be ASCII.
func truncate(text string, width int) string { return text[:max(0, min(width, len(text)))] }

// errWriter records write errors, which the bar would drop.
type errWriter struct{ p *Progress }

func (w errWriter) Write(b []byte) (int, error) {
	w.p.write(string(b))
	return len(b), w.p.err
}
