package report

import (
	"fmt"
	"io"
	"strconv"

	"github.com/gomoe/gomoe/internal/whole"
)

// Metrics writes a CSV file with one row per step. Each row is a single write to the operating system, so however
// the process ends, the file holds complete rows for all reported steps. An older file is replaced when the first
// step is complete, so a run failing before that loses nothing.
//
// The columns: step, loss, smoothed (the loss's moving mean over about 20 steps), held_out (empty when not
// measured), aux, lr, grad_norm, tokens, seconds, tokens_per_second, drops, compute_seconds, exchange_seconds and
// waiting_seconds (see Step), and expert_0 … expert_<E-1>, the share of every expert. Numbers have enough digits to
// be read back unchanged; a non-finite number is NaN, +Inf or -Inf.
type Metrics struct {
	out     io.Writer
	file    *whole.File // created by CreateMetrics, else nil
	experts int
	started bool // the header has been written
	smooth  Smoother
	err     error
}

// MetricsName is the file name of a run's metrics.
const MetricsName = "metrics.csv"

// CreateMetrics creates a CSV file, which appears with the first step. The caller must close it.
func CreateMetrics(path string) (*Metrics, error) {
	f, err := whole.Create(path)
	if err != nil {
		return nil, fmt.Errorf("report: metrics: %w", err)
	}
	return &Metrics{out: f, file: f}, nil
}

// NewMetrics returns a Metrics writing to out, without closing it.
func NewMetrics(out io.Writer) *Metrics { return &Metrics{out: out} }

// Step writes a row, preceded by the header for the first one. It is an error if the number of experts differs from
// the first step's; Step then writes nothing. After a write error, Step writes no more rows.
func (m *Metrics) Step(s Step) error {
	if m.err != nil {
		return m.err
	}
	b, err := m.row(s)
	if err != nil {
		return err
	}
	if _, err = m.out.Write(b); err == nil && m.file != nil {
		err = m.file.Publish()
	}
	if err != nil {
		m.err = fmt.Errorf("report: metrics: %w", err)
	}
	return m.err
}

// row returns the text of a row, preceded by the header for the first one.
func (m *Metrics) row(s Step) ([]byte, error) {
	var b []byte
	if !m.started {
		m.experts = len(s.Load)
		b = append(b, "step,loss,smoothed,held_out,aux,lr,grad_norm,tokens,seconds,tokens_per_second,drops,compute_seconds,exchange_seconds,waiting_seconds"...)
		for e := range s.Load {
			b = append(b, ",expert_"...)
			b = strconv.AppendInt(b, int64(e), 10)
		}
		b = append(b, '\n')
	}
	if len(s.Load) != m.experts {
		return nil, fmt.Errorf("report: metrics: step %d has the load of %d experts, want %d as in the first row",
			s.Index, len(s.Load), m.experts)
	}
	number := func(x float64) { b = strconv.AppendFloat(append(b, ','), x, 'g', -1, 64) }
	integer := func(n int) { b = strconv.AppendInt(append(b, ','), int64(n), 10) }
	b = strconv.AppendInt(b, int64(s.Index), 10)
	number(s.Loss)
	number(m.smooth.Add(s.Loss))
	if s.HeldOut != 0 {
		number(s.HeldOut)
	} else {
		b = append(b, ',')
	}
	number(s.Aux)
	number(s.LR)
	number(s.Norm)
	integer(s.Tokens)
	number(s.Elapsed.Seconds())
	var now throughput
	now.add(s)
	number(now.perSecond())
	integer(s.Drops)
	number(s.Compute.Seconds())
	number(s.Exchange.Seconds())
	number(s.Waiting.Seconds())
	for _, x := range s.Load {
		number(x)
	}
	b = append(b, '\n')
	m.started = true
	return b, nil
}

// Close closes the file. It returns the error of an earlier write, or of closing.
func (m *Metrics) Close() error {
	switch {
	case m.file == nil:
	case !m.started:
		m.file.Discard()
	default:
		if err := m.file.Close(); err != nil && m.err == nil {
			m.err = fmt.Errorf("report: metrics: %w", err)
		}
	}
	m.file = nil
	return m.err
}
