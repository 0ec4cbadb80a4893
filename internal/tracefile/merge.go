package tracefile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gomoe/gomoe/runtime"
)

// Input is one process's trace.
type Input struct {
	Name string // of the file, for errors
	R    io.Reader
}

// Merged describes the output of Merge.
type Merged struct {
	Ranks  []int
	Events int
	// Uncertain is the uncertainty of times of different ranks relative to each other.
	Uncertain time.Duration
}

// event is a trace event; only the fields that Merge changes are decoded.
type event map[string]json.RawMessage

// clock is the description of a trace's clock.
type clock struct {
	Start     int64 `json:"start_unix_ns"`
	Offset    int64 `json:"offset_ns"`
	Uncertain int64 `json:"uncertain_ns"`
}

// file is a trace that has been read.
type file struct {
	name   string
	rank   int
	clock  clock
	events []event
}

// Merge writes the events of all traces to w, with their times on rank 0's clock. Time 0
// is the start of the first trace. Every trace must have its start and its rank, like the
// traces of jobs of several processes. Two traces of one rank are an error.
func Merge(w io.Writer, in []Input) (Merged, error) {
	var files []file
	for _, i := range in {
		f, err := read(i)
		if err != nil {
			return Merged{}, fmt.Errorf("trace: %s: %w", i.Name, err)
		}
		for _, o := range files {
			if o.rank == f.rank {
				return Merged{}, fmt.Errorf("trace: %s and %s are both of rank %d, want one of each rank", o.name, f.name, f.rank)
			}
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return Merged{}, errors.New("trace: no files, want the traces of a job's ranks")
	}
	slices.SortFunc(files, func(a, b file) int { return a.rank - b.rank })
	var zero int64
	var worst [2]int64 // the two largest uncertainties: the times of two ranks may differ by their sum
	for i, f := range files {
		if at := f.clock.Start + f.clock.Offset; i == 0 || at < zero {
			zero = at
		}
		worst = larger(worst, f.clock.Uncertain)
	}
	m := Merged{Uncertain: time.Duration(worst[0] + worst[1])}
	b := bufio.NewWriter(w)
	for _, f := range files {
		m.Ranks = append(m.Ranks, f.rank)
		shift := float64(f.clock.Start+f.clock.Offset-zero) / 1e3
		for _, e := range f.events {
			if err := e.shift(shift); err != nil {
				return m, fmt.Errorf("trace: %s: %w", f.name, err)
			}
			text, err := json.Marshal(e)
			if err != nil {
				return m, fmt.Errorf("trace: %s: %w", f.name, err)
			}
			sep := ",\n"
			if m.Events == 0 {
				sep = "{\"traceEvents\":[\n"
			}
			m.Events++
			b.WriteString(sep)
			b.Write(text)
		}
	}
	b.WriteString("\n]}\n")
	return m, b.Flush()
}

func larger(worst [2]int64, n int64) [2]int64 {
	switch {
	case n > worst[0]:
		return [2]int64{n, worst[0]}
	case n > worst[1]:
		return [2]int64{worst[0], n}
	}
	return worst
}

// read reads a trace. A trace not closed by its process has no end; its complete events
// are used.
func read(in Input) (file, error) {
	f := file{name: in.Name, rank: -1}
	d := json.NewDecoder(in.R)
	for _, want := range []json.Token{json.Delim('{'), "traceEvents", json.Delim('[')} {
		if t, err := d.Token(); err != nil || t != want {
			return f, errors.New("this is no trace, want a file that -trace wrote")
		}
	}
	for d.More() {
		var e event
		if err := d.Decode(&e); err != nil {
			if f.rank >= 0 && len(f.events) > 0 {
				break
			}
			return f, err
		}
		if string(e["name"]) != `"`+runtime.ClockEvent+`"` {
			f.events = append(f.events, e)
			continue
		}
		if f.rank >= 0 {
			return f, errors.New("it says twice when it began; merge the files that the ranks wrote, not a merged one")
		}
		if err := json.Unmarshal(e["args"], &f.clock); err != nil {
			return f, fmt.Errorf("event %s: %w", runtime.ClockEvent, err)
		}
		if err := json.Unmarshal(e["tid"], &f.rank); err != nil || f.rank < 0 {
			return f, fmt.Errorf("event %s: rank %s, want a number", runtime.ClockEvent, e["tid"])
		}
		f.events = append(f.events, e)
	}
	if f.rank < 0 {
		return f, errors.New("it does not say when it began or whose it is; it is of a job in one process, which needs no merging")
	}
	return f, nil
}

// shift adds us microseconds to the time of an event that has one.
func (e event) shift(us float64) error {
	raw, ok := e["ts"]
	if !ok || string(e["ph"]) == `"M"` {
		return nil
	}
	var ts float64
	if err := json.Unmarshal(raw, &ts); err != nil {
		return fmt.Errorf("time %s: %w", raw, err)
	}
	e["ts"], _ = json.Marshal(ts + us)
	return nil
}
