package report

import (
	"fmt"
	"math"
	"strings"
	"time"
)

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
