package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

const (
	// maxHeader is the maximum size of a header in bytes, as in the format's own library.
	maxHeader = 100_000_000
	// maxRank is the maximum number of dimensions; other formats have at most 64.
	maxRank = 64
	// metadataKey is the only header member that is not a tensor.
	metadataKey = "__metadata__"
)

// entry is a tensor's description in the header.
type entry struct {
	name       string
	dtype      string
	shape      []int
	begin, end int64 // relative to the end of the header
}

// header is the part of the file preceding the tensors' bytes.
type header struct {
	metadata map[string]string
	entries  []entry // in byte order
	bytes    int64   // size of the header including its length, which is the start of the tensors' bytes
}

// parse reads the header of a file with the bytes mem, and checks that the tensors fill the rest of the file
// without gaps.
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

// check validates sizes, and that the tensors fill the bytes after the header.
func (h *header) check(bytes int64) error {
	slices.SortFunc(h.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
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

// size returns the number of bytes required by the element type and the shape.
func (e entry) size() (int64, error) {
	t, ok := byName(e.dtype)
	if !ok {
		var names []string
		for _, t := range dtypes() {
			names = append(names, t.name)
		}
		return 0, fmt.Errorf("element type %s is unknown, want one of %s", quoted.Name(e.dtype), quoted.Words(names))
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

// decode reads the header's JSON.
func decode(text []byte) (*header, error) {
	var all map[string]json.RawMessage
	if err := strictjson.UnmarshalOnce(text, &all); err != nil {
		return nil, err
	}
	h := &header{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == metadataKey {
			if err := strictjson.UnmarshalOnce(all[name], &h.metadata); err != nil {
				return nil, fmt.Errorf("metadata: %w", err)
			}
			continue
		}
		var f fields
		err := strictjson.UnmarshalKnown(all[name], &f)
		switch {
		case err != nil:
		case f.DType == nil:
			err = errors.New("dtype is missing")
		case f.Shape == nil:
			err = errors.New("shape is missing")
		case f.Offsets == nil:
			err = errors.New("data_offsets is missing")
		case len(f.Offsets) != 2 || f.Offsets[0] > f.Offsets[1]:
			err = fmt.Errorf("data_offsets: %v, want where the tensor begins and where it ends", f.Offsets)
		}
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quoted.Name(name), err)
		}
		h.entries = append(h.entries, entry{name: name, dtype: *f.DType, shape: f.Shape, begin: int64(f.Offsets[0]), end: int64(f.Offsets[1])})
	}
	return h, nil
}

// fields are the members of a tensor's description.
type fields struct {
	DType   *string `json:"dtype"`
	Shape   numbers `json:"shape"`
	Offsets numbers `json:"data_offsets"`
}

// numbers is a list of at most maxRank non-negative integers.
type numbers []int

func (n *numbers) UnmarshalJSON(text []byte) error {
	if bytes.Count(text, []byte(",")) >= maxRank {
		return fmt.Errorf("more than %d numbers", maxRank)
	}
	err := strictjson.UnmarshalOnce(text, (*[]int)(n))
	if err == nil && slices.ContainsFunc(*n, func(x int) bool { return x < 0 }) {
		err = fmt.Errorf("%s, want integers of at least 0", quoted.JSON(text))
	}
	return err
}
