package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl/link"
)

// headVersion is the first byte of every head.
const headVersion = 2

// maxName is the largest size of a file's name and of a scope in a head, in bytes.
const maxName = 100

// head precedes a member's data: it has the member's claim, its group and, on links with
// shared memory, the offsets of its buffers.
//
//	version  byte
//	op       byte, an index of opNames
//	dtype    byte
//	flags    byte: 1 if the buffers are in shared memory
//	group    8 bytes, little-endian
//	ranks, gives, takes, at    each a count, and that many numbers
//	seq, bytes of the call, line, bytes, root, to, from, color, key
//	file     a count, and that many bytes
//	scope    likewise
//
// Numbers are varints: counts and the numbers of lists are unsigned, the others in zigzag
// form.
type head struct {
	claim   claim
	group   uint64  // distinguishes groups of equal ranks
	ranks   []int   // of the group
	located bool    // all buffers are in shared memory
	at      []int64 // their offsets: src or its parts before dst or its parts
}

// opName returns the operation with number n in a head; "" if there is none.
func opName(n byte) string {
	names := [...]string{allSum, allMax, allMin, allGather, allGatherV, reduceScatter, allToAll, broadcast, barrier, split, send, recv, sendRecv}
	if int(n) < len(names) {
		return names[n]
	}
	return ""
}

func opNumber(name string) byte {
	for n := byte(0); opName(n) != ""; n++ {
		if opName(n) == name {
			return n
		}
	}
	return math.MaxUint8
}

// append appends the encoding of h to b.
func (h *head) append(b []byte) []byte {
	c := &h.claim
	flags := byte(0)
	if h.located {
		flags = 1
	}
	b = append(b, headVersion, opNumber(c.call.Op), byte(c.call.DType), flags)
	b = binary.LittleEndian.AppendUint64(b, h.group)
	b = appendInts(b, h.ranks)
	b = appendInts(b, c.gives)
	b = appendInts(b, c.takes)
	b = appendInts(b, h.at)
	for _, n := range [...]int64{int64(c.call.Seq), c.call.Bytes, int64(c.call.Pos.Line), int64(c.bytes), int64(c.root), int64(c.to), int64(c.from), int64(c.color), int64(c.key)} {
		b = binary.AppendVarint(b, n)
	}
	return appendText(appendText(b, c.call.Pos.File), c.call.Pos.Scope)
}

func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendInts[I int | int64](b []byte, ns []I) []byte {
	b = binary.AppendUvarint(b, uint64(len(ns)))
	for _, n := range ns {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// decode sets h to the value encoded in b by append; it reuses the memory of h. It does
// not trust b: counts are bounded by the bytes present.
func (h *head) decode(b []byte) error {
	if len(b) > link.MaxHead {
		return fmt.Errorf("%d bytes, want at most %d", len(b), link.MaxHead)
	}
	if len(b) < 12 {
		return fmt.Errorf("%d bytes, want 12 or more", len(b))
	}
	if b[0] != headVersion {
		return fmt.Errorf("version %d, want %d; run the same program on all ranks", b[0], headVersion)
	}
	c := &h.claim
	if c.call.Op = opName(b[1]); c.call.Op == "" {
		return fmt.Errorf("operation %d is unknown", b[1])
	}
	if b[3] > 1 {
		return fmt.Errorf("flags %#x are unknown", b[3])
	}
	c.call.DType, h.located = graph.DType(b[2]), b[3] == 1
	h.group = binary.LittleEndian.Uint64(b[4:])
	r := reader{rest: b[12:]}
	h.ranks = readInts(&r, h.ranks[:0])
	c.gives = readInts(&r, c.gives[:0])
	c.takes = readInts(&r, c.takes[:0])
	h.at = readInts(&r, h.at[:0])
	c.call.Seq, c.call.Bytes, c.call.Pos.Line = int(r.varint()), r.varint(), int(r.varint())
	c.bytes, c.root, c.to, c.from = int(r.varint()), int(r.varint()), int(r.varint()), int(r.varint())
	c.color, c.key = int(r.varint()), int(r.varint())
	file, scope := r.bytes(maxName), r.bytes(maxName)
	switch {
	case r.bad:
		return errors.New("cut short, or numbers out of range")
	case len(r.rest) > 0:
		return fmt.Errorf("%d bytes after its end", len(r.rest))
	case c.bytes < 0:
		return fmt.Errorf("a buffer of %d bytes", c.bytes)
	}
	pos := &c.call.Pos
	if pos.File != string(file) { // usually equal, and then nothing is allocated
		pos.File = nameText(string(file))
	}
	if pos.Scope != string(scope) {
		pos.Scope = nameText(string(scope))
	}
	return nil
}

// nameText returns the name of a file or of a scope in its form for heads and messages:
// its last maxName bytes, with ? for unprintable characters.
func nameText(s string) string {
	if len(s) > maxName {
		s = s[len(s)-maxName:]
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?' // one byte, so that no name gets longer
		}
		return r
	}, s)
}

// reader reads numbers and texts. After invalid input, it sets bad and returns zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) varint() int64 {
	n, k := binary.Varint(r.rest)
	if k <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[k:]
	return n
}

// length reads a number from 0 to most.
func (r *reader) length(most int) int {
	n, k := binary.Uvarint(r.rest)
	if k <= 0 || n > uint64(most) {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[k:]
	return int(n)
}

func (r *reader) bytes(most int) []byte {
	n := r.length(min(most, len(r.rest)))
	if n > len(r.rest) { // reading the count has shortened rest
		r.bad, n = true, 0
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func readInts[I int | int64](r *reader, to []I) []I {
	for range r.length(len(r.rest)) {
		if r.bad {
			break
		}
		to = append(to, I(r.length(math.MaxInt)))
	}
	return to
}
