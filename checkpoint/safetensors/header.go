package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
)

const (
	// maxHeader is the largest header in bytes, the limit of the format's own library.
	maxHeader = 100_000_000
	// maxRank is the largest number of dimensions; other formats have at most 64.
	maxRank = 64
	// metadataKey is the member of the header that is no tensor.
	metadataKey = "__metadata__"
)

// entry is a tensor as the header describes it.
type entry struct {
	name       string
	dtype      string
	shape      []int
	begin, end int64 // in the part of the file behind the header
}

// header is what stands before the tensors' bytes.
type header struct {
	metadata map[string]string
	entries  []entry // by where they begin
	bytes    int64   // of the header itself with its length, where the tensors' bytes begin
}

// parse reads the header of a file, whose bytes are all of mem, and checks that the tensors
// fill the rest of the file without gaps.
func parse(mem []byte) (*header, error) {
	if len(mem) < 8 {
		return nil, fmt.Errorf("%d bytes, want at least 8, which are the length of the header; the file is cut short, or no safetensors file", len(mem))
	}
	n := binary.LittleEndian.Uint64(mem)
	switch {
	case n > maxHeader:
		return nil, fmt.Errorf("a header of %d bytes, want at most %d; this is no safetensors file", n, maxHeader)
	case n > uint64(len(mem)-8):
		return nil, fmt.Errorf("a header of %d bytes in a file of %d, want at most %d; the file is cut short", n, len(mem), len(mem)-8)
	case n == 0 || mem[8] != '{':
		return nil, errors.New("the header does not begin with {; this is no safetensors file")
	}
	h, err := decode(mem[8 : 8+n])
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	h.bytes = int64(8 + n)
	return h, h.check(int64(len(mem)) - h.bytes)
}

// check checks sizes, and that the tensors fill the bytes behind the header.
func (h *header) check(bytes int64) error {
	slices.SortStableFunc(h.entries, func(a, b entry) int {
		if a.begin != b.begin {
			return compare(a.begin, b.begin)
		}
		return compare(a.end, b.end)
	})
	at, last := int64(0), ""
	for _, e := range h.entries {
		want, err := e.size()
		switch {
		case err != nil:
			return fmt.Errorf("tensor %s: %w", quoted.Name(e.name), err)
		case e.end-e.begin != want:
			return fmt.Errorf("tensor %s: %d bytes for %s%v, want %d", quoted.Name(e.name), e.end-e.begin, e.dtype, e.shape, want)
		case e.end > bytes:
			return fmt.Errorf("tensor %s: ends at byte %d of %d; the file is cut short", quoted.Name(e.name), e.end, bytes)
		case e.begin < at:
			return fmt.Errorf("tensor %s: begins at byte %d, inside of tensor %s, which ends at %d", quoted.Name(e.name), e.begin, quoted.Name(last), at)
		case e.begin > at:
			return fmt.Errorf("tensor %s: begins at byte %d, want %d: bytes before it belong to no tensor", quoted.Name(e.name), e.begin, at)
		}
		at, last = e.end, e.name
	}
	if at != bytes {
		return fmt.Errorf("%d bytes behind the last tensor, want none", bytes-at)
	}
	return nil
}

func compare(a, b int64) int {
	if a < b {
		return -1
	} else if a > b {
		return 1
	}
	return 0
}

// size returns the bytes that the element type and the shape need.
func (e entry) size() (int64, error) {
	t, ok := byName(e.dtype)
	if !ok {
		var names []string
		for _, t := range dtypes() {
			names = append(names, t.name)
		}
		return 0, fmt.Errorf("element type %s is unknown, want one of %v", quoted.Name(e.dtype), names)
	}
	n := uint64(t.bits)
	for _, d := range e.shape {
		high, low := bits.Mul64(n, uint64(d))
		if high != 0 || low > math.MaxInt64 {
			if slices.Contains(e.shape, 0) {
				return 0, nil
			}
			return 0, fmt.Errorf("%s%v has more bits than fit in 63 bits", e.dtype, e.shape)
		}
		n = low
	}
	if n%8 != 0 {
		return 0, fmt.Errorf("%s%v has %d bits, want whole bytes", e.dtype, e.shape, n)
	}
	return int64(n / 8), nil
}

// decode reads the header's JSON. A name that stands there twice is an error, which
// json.Unmarshal does not report.
func decode(text []byte) (*header, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("this is not UTF-8")
	}
	d := &decoder{json.NewDecoder(bytes.NewReader(text))}
	d.UseNumber()
	h := &header{}
	seen := map[string]bool{}
	err := d.object(func(name string) error {
		if seen[name] {
			return fmt.Errorf("tensor %s is there twice", quoted.Name(name))
		}
		seen[name] = true
		if name == metadataKey {
			return d.metadata(h)
		}
		e, err := d.entry(name)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", quoted.Name(name), err)
		}
		h.entries = append(h.entries, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more behind the JSON object")
	}
	return h, nil
}

type decoder struct{ *json.Decoder }

// object reads a JSON object and calls member for each of its names, to read the value.
func (d *decoder) object(member func(name string) error) error {
	if err := d.delim('{', "an object"); err != nil {
		return err
	}
	for d.More() {
		name, err := d.text()
		if err != nil {
			return err
		}
		if err := member(name); err != nil {
			return err
		}
	}
	return d.delim('}', "the object's end")
}

func (d *decoder) delim(c json.Delim, what string) error {
	t, err := d.token()
	if err != nil {
		return err
	}
	if t != c {
		return fmt.Errorf("%s where %s should stand", show(t), what)
	}
	return nil
}

// token returns the next token; where the text ends is an error.
func (d *decoder) token() (json.Token, error) {
	t, err := d.Token()
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	return t, err
}

// show returns a token for an error, with text in quotes.
func show(t json.Token) string {
	if s, ok := t.(string); ok {
		return quoted.Text(s)
	}
	return quoted.Plain(fmt.Sprint(t))
}

func (d *decoder) text() (string, error) {
	t, err := d.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("%s where text in quotes should stand", show(t))
	}
	return s, nil
}

// numbers reads an array of at most max integers of at least 0.
func (d *decoder) numbers(max int) ([]int64, error) {
	if err := d.delim('[', "an array"); err != nil {
		return nil, err
	}
	ns := []int64{}
	for d.More() {
		t, err := d.token()
		if err != nil {
			return nil, err
		}
		text, ok := t.(json.Number)
		n, err := strconv.ParseInt(string(text), 10, 64)
		if !ok || err != nil || n < 0 {
			return nil, fmt.Errorf("%s where an integer of at least 0 should stand", show(t))
		}
		if len(ns) == max {
			return nil, fmt.Errorf("more than %d numbers", max)
		}
		ns = append(ns, n)
	}
	return ns, d.delim(']', "the array's end")
}

func (d *decoder) metadata(h *header) error {
	h.metadata = map[string]string{}
	return d.object(func(key string) error {
		if _, ok := h.metadata[key]; ok {
			return fmt.Errorf("metadata %s is there twice", quoted.Name(key))
		}
		value, err := d.text()
		if err != nil {
			return fmt.Errorf("metadata %s: %w", quoted.Name(key), err)
		}
		h.metadata[key] = value
		return nil
	})
}

func (d *decoder) entry(name string) (entry, error) {
	e := entry{name: name}
	var seen []string
	err := d.object(func(key string) (err error) {
		if slices.Contains(seen, key) {
			return fmt.Errorf("%s is there twice", quoted.Name(key))
		}
		seen = append(seen, key)
		var ns []int64
		switch key {
		case "dtype":
			e.dtype, err = d.text()
		case "shape":
			ns, err = d.numbers(maxRank)
			e.shape = make([]int, len(ns))
			for i, n := range ns {
				if e.shape[i] = int(n); int64(e.shape[i]) != n {
					return fmt.Errorf("shape: %d is more than an int of this system", n)
				}
			}
		case "data_offsets":
			if ns, err = d.numbers(2); err == nil && (len(ns) != 2 || ns[0] > ns[1]) {
				err = fmt.Errorf("%v, want where the tensor begins and where it ends", ns)
			}
			if err == nil {
				e.begin, e.end = ns[0], ns[1]
			}
		default:
			return fmt.Errorf("%s is unknown, want dtype, shape and data_offsets", quoted.Name(key))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return e, err
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !slices.Contains(seen, key) {
			return e, fmt.Errorf("%s is missing", key)
		}
	}
	return e, nil
}
