package flight

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/internal/whole"
)

// Dump is a recorder's file.
type Dump struct {
	Gomoe string `json:"gomoe"` // flight
	About
	Why     string      `json:"why"`     // the reason for writing it
	Written time.Time   `json:"written"` // by the rank's clock
	Begun   int64       `json:"begun"`   // number of all operations so far; Ops has the last of them
	Ops     []Operation `json:"ops"`     // the oldest first
}

// Operation is one operation of a Dump. Times are by the rank's clock.
type Operation struct {
	Number int64     `json:"number"` // number among the rank's operations, from 0
	Op     string    `json:"op"`
	Seq    int       `json:"seq"`
	DType  string    `json:"dtype"`
	Bytes  int64     `json:"bytes"`
	Ranks  []int     `json:"ranks"`
	Peer   *int      `json:"peer,omitempty"`
	Line   string    `json:"line"`
	Began  time.Time `json:"began"`
	// Micros is the duration of the operation, so far if it is running.
	Micros float64 `json:"us"`
	// State is done, failed or running.
	State string `json:"state"`
	Error string `json:"error,omitempty"`
}

// Take returns the record so far. why is the reason for taking it.
func (r *Recorder) Take(why string) Dump {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	d := Dump{Gomoe: "flight", About: r.about, Why: why, Written: now, Begun: r.n}
	for n := max(0, r.n-Kept); n < r.n; n++ {
		e := &r.ring[n%Kept]
		o := Operation{Number: n, Op: e.call.Op, Seq: e.call.Seq, DType: e.call.DType.String(), Bytes: e.bytes,
			Ranks: e.ranks, Line: e.call.Pos.String(), Began: e.began, State: "done"}
		if e.peer != nobody {
			peer := e.peer
			o.Peer = &peer
		}
		end := e.ended
		switch {
		case e.failed != nil:
			o.State, o.Error = "failed", e.failed.Error()
		case end.IsZero():
			o.State, end = "running", now
		}
		o.Micros = float64(end.Sub(e.began).Nanoseconds()) / 1e3
		d.Ops = append(d.Ops, o)
	}
	return d
}

// Write writes the record as JSON.
func (d Dump) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(d)
}

// Name is the name of a rank's file in a folder of records.
func (d Dump) Name() string { return fmt.Sprintf("flight-rank%d.json", d.Rank) }

// Save writes the record to its file in the folder, which it creates if needed, returning
// the file's path. The file is complete or absent.
func (d Dump) Save(folder Folder) (string, error) {
	root, err := folder.open()
	if err != nil {
		return "", fmt.Errorf("flight: %w", err)
	}
	f, err := whole.CreateIn(root, d.Name())
	if err != nil {
		return "", fmt.Errorf("flight: %w", errors.Join(err, root.Close()))
	}
	defer f.Discard()
	if err := d.Write(f); err != nil {
		return "", fmt.Errorf("flight: %w", err)
	}
	if err := f.Close(); err != nil {
		return "", fmt.Errorf("flight: %w", err)
	}
	return filepath.Join(folder.Path, d.Name()), nil
}

// largest is the most bytes that Read accepts. A record of Kept operations among a
// thousand ranks has less than 2 MB.
const largest = 64 << 20

// Read returns the record in the file.
func Read(path string) (Dump, error) {
	b, err := infile.Read(path, largest)
	if err != nil {
		return Dump{}, fmt.Errorf("flight: %w; want a file that a failed job wrote", err)
	}
	return Parse(path, b)
}

// Parse returns the record in b, the contents of the file at path.
func Parse(path string, b []byte) (Dump, error) {
	var d Dump
	if err := strictjson.UnmarshalOnce(b, &d); err != nil {
		return Dump{}, fmt.Errorf("flight: %s: %w", path, err)
	}
	switch {
	case d.Gomoe != "flight":
		return Dump{}, fmt.Errorf("flight: %s is no flight record, want a file that a failed job wrote", path)
	case d.Rank < 0 || d.Size < 1 || d.Rank >= d.Size:
		return Dump{}, fmt.Errorf("flight: %s: rank %d of %d, want a rank below the size", path, d.Rank, d.Size)
	}
	return d, nil
}
