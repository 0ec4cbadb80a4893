//go:build linux || darwin

package shm

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

// announcement describes a rank's own segment to the others.
type announcement struct {
	Error string `json:"error,omitempty"` // why the rank has no segment
	Pid   int    `json:"pid"`
	FD    int    `json:"fd"`             // the descriptor of memory without a name, in process Pid
	Path  string `json:"path,omitempty"` // the path of a file; empty for memory without a name
	Size  int64  `json:"size"`
	Ring  int    `json:"ring"`
	Nonce []byte `json:"nonce"` // the first bytes of the segment
}

// verdict is a rank's judgement of the others' segments.
type verdict struct {
	Error string `json:"error,omitempty"` // why the rank cannot use them
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: v is a struct of texts, numbers and bytes
	}
	return b
}

// parse reads one JSON object into v. Anything else in b is an error.
func parse(b []byte, v any) error {
	if err := strictjson.UnmarshalKnown(b, v); err != nil {
		return fmt.Errorf("announces what cannot be read: %w; run the same version on every rank", err)
	}
	return nil
}

// parseAnnouncement reads an announcement, checking all that can be checked without the
// segment.
func parseAnnouncement(b []byte) (announcement, error) {
	var a announcement
	if err := parse(b, &a); err != nil {
		return a, err
	}
	switch {
	case a.Error != "":
		return a, errors.New(a.Error)
	case a.Pid <= 0 || a.FD < 0 || len(a.Nonce) != nonceBytes || a.Path != "" && (!filepath.IsAbs(a.Path) || filepath.Clean(a.Path) != a.Path):
		return a, fmt.Errorf("announces process %d, descriptor %d, file %s and %d bytes to know it by, want %d", a.Pid, a.FD, quoted.Text(a.Path), len(a.Nonce), nonceBytes)
	}
	return a, nil
}

// parseVerdict returns the error in a verdict.
func parseVerdict(b []byte) error {
	var v verdict
	if err := parse(b, &v); err != nil {
		return err
	}
	if v.Error != "" {
		return errors.New(v.Error)
	}
	return nil
}
