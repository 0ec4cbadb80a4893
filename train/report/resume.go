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
