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
)

// defaultLimit is the largest number of bytes that Load reads if Options.Limit
// is 0.
const defaultLimit = 16 << 20

// Options say what Load reads.
type Options struct {
	// Data names files and directories, separated by commas. Empty means the
	// source of the Go standard library.
	Data string
	// Setting is what errors call Data in words of those who set it; "" is -data.
	Setting string
	// Limit is the largest number of bytes read; 0 means 16 MiB, negative
	// means no limit.
	Limit int64
	// Seed selects the batches. It does not change which files are read.
	Seed uint64
}

// Corpus is a text in memory. It is not written to after Load, so any number
// of goroutines may use it.
type Corpus struct {
	// Train is the text to train on; Held is the last 5% of the bytes, rounded
	// down, to validate on. Files follow each other without a separator. They
	// lie in an order that looks random but is always the same, so that Held is
	// a sample of the same kind of text; at most one file is in both, its
	// beginning in Train and its end in Held.
	Train, Held []byte

	Source string // where the text is from, for people: "Go standard library (/usr/local/go/src)"
	Files  int    // files that the text has bytes of
	Found  int    // files there were to choose from; those beyond Limit are not opened
	Binary int    // files skipped because they contain a NUL byte
	Cut    bool   // whether the last file was cut off at Limit

	seed    uint64
	setting string // what named the text
}

// Load reads a corpus. If there is more text than the limit, it takes whole
// files in the order of a hash of their paths until the limit cuts the last
// one, so that the sample is spread over the tree and always the same. Empty
// files are ignored. Hidden entries of directories are skipped; files that
// Options.Data names are always read. It returns an error if a path cannot be
// read, there is no Go installation to read from, or there is no text. It
// blocks on the file system, and on the go command if Options.Data is empty;
// the end of ctx ends it.
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

// read returns the first limit bytes of a file, and whether there are more.
func read(path string, limit int64) (data []byte, cut bool, err error) {
	f, _, err := infile.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return infile.Head(path, f, limit)
}

// Hash identifies the text and how it is divided: equal hashes are equal texts.
func (c *Corpus) Hash() string {
	h := sha256.New()
	for _, part := range [][]byte{c.Train, c.Held} {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// String is one line that says what was read and how it is divided.
func (c *Corpus) String() string {
	s := fmt.Sprintf("%s: %s from %d of %d files", c.Source, size(len(c.Train)+len(c.Held)), c.Files, c.Found)
	if c.Cut {
		s += ", the last one cut at the limit"
	}
	if c.Binary > 0 {
		s += fmt.Sprintf(", %d binary skipped", c.Binary)
	}
	return s + fmt.Sprintf("; %s to train on, %s held out", size(len(c.Train)), size(len(c.Held)))
}

func size(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
