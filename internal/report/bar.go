package report

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
)

// draw puts the bar with the step behind it on the cursor's line: as much as
// the terminal is wide, since a line that wraps cannot be drawn again in place.
func (p *Progress) draw(s Step, smoothed float64, eta time.Duration) {
	if p.bar == nil {
		p.cells = 10
		if p.width() < 100 {
			p.cells = 4 // room is scarce
		}
		p.bar = progressbar.NewOptions(max(1, s.Total),
			progressbar.OptionSetWriter(errWriter{p}),
			progressbar.OptionSetWidth(p.cells),
			progressbar.OptionSetTheme(progressbar.ThemeASCII),
			progressbar.OptionShowDescriptionAtLineEnd(),
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionSetPredictTime(false), // it counts from the bar's creation, and by its own clock
			progressbar.OptionUseANSICodes(true),
		)
	}
	p.open, p.full = true, s.Index >= s.Total
	p.bar.Describe(fit(s, smoothed, p.rate.perSecond(), eta, p.width()-p.cells-barFrame))
	if err := p.bar.Set(min(s.Index, max(1, s.Total))); err != nil && p.err == nil {
		p.err = fmt.Errorf("report: progress: %w", err)
	}
}

// truncate returns the first width bytes of text, which is ASCII.
func truncate(text string, width int) string { return text[:max(0, min(width, len(text)))] }

// errWriter keeps the error of a write that the bar would drop.
type errWriter struct{ p *Progress }

func (w errWriter) Write(b []byte) (int, error) {
	w.p.write(string(b))
	return len(b), w.p.err
}
