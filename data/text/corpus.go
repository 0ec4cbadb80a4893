package text

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/memory"
)

// defaultLimit is the maximum number of bytes read by Load if Options.Limit is 0.
const defaultLimit = 16 << 20

// Options configures Load.
type Options struct {
	// Data names files and directories, separated by commas. If empty, Load reads the source of the Go standard
	// library.
	Data string
	// Setting is the name of Data in errors, as known to the user; "" means -data.
	Setting string
	// Limit is the maximum number of bytes to read; 0 means 16 MiB, negative means no limit.
	Limit int64
	// Seed selects the batches. It does not affect which files are read.
	Seed uint64
}

// Corpus is a text in memory. It is immutable after Load, and so safe for concurrent use.
type Corpus struct {
	// Train is the text to train on; Held is the last 5% of the bytes, rounded down, for validation. Files are
	// concatenated without separators, in a pseudorandom but fixed order, so that Held is a sample of the same kind of
	// text. At most one file is in both, its beginning in Train and its end in Held.
	Train, Held []byte

	Source string // origin of the text, for the user: "Go standard library (/usr/local/go/src)"
	Files  int    // number of files included, in whole or in part
	Found  int    // number of candidate files; those beyond Limit are not opened
	Binary int    // number of files skipped because they contain a NUL byte
	Cut    bool   // the last file was truncated at Limit

	seed    uint64
	setting string // name of the setting, for errors
}

// Load reads a corpus. If there is more text than the limit, it takes whole files in the order of a hash of their
// paths and truncates the last one, so that the sample is spread over the tree and always the same. Empty files are
// ignored. Hidden entries of directories are skipped, but files named in Options.Data are always read. It returns
// an error if a path cannot be read, if there is no Go installation to read from, or if there is no text. It blocks
// on the file system, and on the go command if Options.Data is empty; it stops when ctx ends.
func Load(ctx context.Context, opts Options) (*Corpus, error) {
	setting := cmp.Or(opts.Setting, "-data")
	source, files, err := find(ctx, setting, opts.Data)
	if err != nil {
		return nil, err
	}
	limit := opts.Limit
	switch {
	case limit == 0:
		limit = defaultLimit
	case limit < 0:
		limit = math.MaxInt64
	}
	c := &Corpus{Source: source, Found: len(files), seed: opts.Seed, setting: setting}
	var all []byte
	for _, f := range spread(files) {
		room := limit - int64(len(all))
		if room <= 0 {
			break
		}
		if err := context.Cause(ctx); err != nil {
			return nil, fmt.Errorf("text: load %s: %w", source, err)
		}
		data, cut, err := read(f.path, room)
		if err != nil {
			return nil, fmt.Errorf("text: load %s: %w", source, err)
		}
		if bytes.IndexByte(data, 0) >= 0 {
			c.Binary++
			continue
		}
		if len(data) == 0 {
			continue
		}
		all = append(all, data...)
		c.Files++
		c.Cut = cut
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("text: load %s: no text in %d files, of which %d are binary (contain a NUL byte); "+
			"name text files or directories with %s", source, len(files), c.Binary, setting)
	}
	cut := len(all) - len(all)/20
	c.Train, c.Held = all[:cut:cut], all[cut:]
	return c, nil
}

// read returns the first limit bytes of a file, and whether it is longer.
func read(path string, limit int64) (data []byte, cut bool, err error) {
	f, _, err := infile.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return infile.Head(path, f, limit)
}

// Hash identifies the text and its division: equal hashes mean equal texts.
func (c *Corpus) Hash() string {
	h := sha256.New()
	for _, part := range [][]byte{c.Train, c.Held} {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// String describes the text and its division in one line.
func (c *Corpus) String() string {
	s := fmt.Sprintf("%s: %s from %d of %d files", c.Source, memory.Format(int64(len(c.Train)+len(c.Held))), c.Files, c.Found)
	if c.Cut {
		s += ", the last one cut at the limit"
	}
	if c.Binary > 0 {
		s += fmt.Sprintf(", %d binary skipped", c.Binary)
	}
	return s + fmt.Sprintf("; %s to train on, %s held out", memory.Format(int64(len(c.Train))), memory.Format(int64(len(c.Held))))
}
