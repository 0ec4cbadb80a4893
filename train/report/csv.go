package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/gomoe/gomoe/internal/infile"
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

// maxMetrics is the maximum length of a metrics file in bytes. A million steps of a model with 64 experts take 1.2
// GB.
const maxMetrics = 4 << 30

// columns is the number of CSV columns preceding the experts' columns.
const columns = 14

// ResumeMetrics continues the CSV file of an earlier run after the given number of steps. It drops rows of later
// steps, which will be run again, and any text after the last complete row. It returns the steps of the remaining
// rows. The file changes with the next step or Close. If there is no file, the rows begin with the next step.
// Otherwise it is an error if rows of earlier steps are missing.
func ResumeMetrics(path string, steps int) (*Metrics, []Step, error) {
	old, err := infile.Read(path, maxMetrics)
	if errors.Is(err, os.ErrNotExist) {
		m, err := CreateMetrics(path)
		return m, nil, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("report: metrics: %w", err)
	}
	kept, err := rows(old, steps)
	if err != nil {
		return nil, nil, fmt.Errorf("report: metrics: %s: %w", path, err)
	}
	f, err := whole.Create(path)
	if err != nil {
		return nil, nil, fmt.Errorf("report: metrics: %w", err)
	}
	m := &Metrics{out: f, file: f}
	for _, s := range kept {
		b, err := m.row(s)
		if err == nil {
			_, err = f.Write(b)
		}
		if err != nil {
			f.Discard()
			return nil, nil, err
		}
	}
	return m, kept, nil
}

// rows reads the rows of the given number of steps.
func rows(text []byte, steps int) ([]Step, error) {
	r := csv.NewReader(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1]))
	header, err := r.Read()
	if err != nil || len(header) < columns || !slices.Equal(header[:2], []string{"step", "loss"}) || header[columns-1] != "waiting_seconds" {
		return nil, errors.New("line 1 is not the header of metrics")
	}
	var out []Step
	for next := 0; next <= steps; next++ {
		fields, err := r.Read()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the file ends before it")
			}
			return nil, fmt.Errorf("a row of step %d is wanted, as the checkpoint is of step %d: %w; put the file of that run there, or remove this one to begin another", max(next, 1), steps, err)
		}
		s, err := parseRow(fields)
		if err != nil {
			return nil, fmt.Errorf("the row after step %d: %w", next-1, err)
		}
		if next == 0 { // the file may start later than the run
			next = s.Index
		}
		if s.Index != next || next < 1 {
			return nil, fmt.Errorf("a row of step %d, want one of step %d", s.Index, max(next, 1))
		}
		if next <= steps {
			out = append(out, s)
		}
	}
	return out, nil
}

func parseRow(fields []string) (s Step, err error) {
	number := func(i int) float64 {
		if fields[i] == "" && i == 3 {
			return 0 // no held-out loss
		}
		x, e := strconv.ParseFloat(fields[i], 64)
		if e != nil && err == nil {
			err = e
		}
		return x
	}
	integer := func(i int) int {
		n, e := strconv.Atoi(fields[i])
		if e != nil && err == nil {
			err = e
		}
		return n
	}
	duration := func(i int) time.Duration { return time.Duration(math.Round(number(i) * 1e9)) }
	s = Step{Index: integer(0), Loss: number(1), HeldOut: number(3), Aux: number(4), LR: number(5), Norm: number(6),
		Tokens: integer(7), Elapsed: duration(8), Drops: integer(10), Compute: duration(11), Exchange: duration(12), Waiting: duration(13)}
	for i := columns; i < len(fields); i++ {
		s.Load = append(s.Load, number(i))
	}
	return s, err
}
