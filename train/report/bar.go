package report

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
)

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
