//go:build linux || darwin

package shm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/gomoe/gomoe/jaccl/link"
)

// A ring carries a head, if the exchange has one, and then data, if there is any. Each
// begins with a record of 32 bytes, little endian:
//
//	0   kind    uint32
//	4   sum     uint32   CRC-32C of the record, with zero here, and its body
//	8   seq     uint64   number of the exchange between the two ranks
//	16  bytes   uint64   size of the head, or of all the data
//	24  places  uint64   number of places, for data that the receiver reads in the arena
//
// The body of kindHead is the head. The body of kindView is places of 16 bytes each: an
// offset in the sender's arena and a length. kindData has no body: its bytes follow
// without a checksum.
const (
	recordBytes = 32
	placeBytes  = 16

	kindHead = 0x64616568 // a head
	kindData = 0x61746164 // data, in the ring
	kindView = 0x77656976 // data in the sender's arena, at offsets

	// maxPlaces bounds the memory that a peer can make this rank use.
	maxPlaces = link.MaxHead / placeBytes
)

type record struct {
	kind   uint32
	sum    uint32
	seq    uint64
	bytes  uint64
	places uint64
}

// place is a piece of data in the sender's arena: its offset and its length.
type place struct{ at, n uint64 }

// body returns the number of bytes with a checksum following the record.
func (r record) body() int {
	switch r.kind {
	case kindHead:
		return int(r.bytes)
	case kindView:
		return placeBytes * int(r.places)
	}
	return 0
}

func kindName(k uint32) string {
	switch k {
	case kindHead:
		return "a head"
	case kindData, kindView:
		return "data"
	}
	return fmt.Sprintf("a record of kind %#x", k)
}

// newTable returns the table of the checksum that processors compute with an instruction.
func newTable() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// appendRecord appends r, with its sum, and its body to b.
func appendRecord(b []byte, r record, body []byte, table *crc32.Table) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, r.kind)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, r.seq)
	b = binary.LittleEndian.AppendUint64(b, r.bytes)
	b = binary.LittleEndian.AppendUint64(b, r.places)
	b = append(b, body...)
	binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(b[at:], table))
	return b
}

// parseRecord parses a record of 32 bytes. It returns an error unless the record belongs to
// exchange number seq, announces a head if head is true and data otherwise, and has lengths
// within bounds. It does not check the sum.
func parseRecord(b []byte, head bool, seq uint64) (record, error) {
	r := record{
		kind:   binary.LittleEndian.Uint32(b),
		sum:    binary.LittleEndian.Uint32(b[4:]),
		seq:    binary.LittleEndian.Uint64(b[8:]),
		bytes:  binary.LittleEndian.Uint64(b[16:]),
		places: binary.LittleEndian.Uint64(b[24:]),
	}
	known := r.kind == kindHead || r.kind == kindData || r.kind == kindView
	want := "data"
	if head {
		want = "a head"
	}
	switch {
	case !known || head != (r.kind == kindHead) || r.seq != seq:
		return r, fmt.Errorf("sends %s of exchange %d, want %s of exchange %d", kindName(r.kind), r.seq, want, seq)
	case head && r.bytes > link.MaxHead:
		return r, fmt.Errorf("sends a head of %d bytes, want at most %d", r.bytes, link.MaxHead)
	case r.kind == kindView && (r.places == 0 || r.places > maxPlaces):
		return r, fmt.Errorf("sends data in %d places, want 1 to %d", r.places, maxPlaces)
	case r.kind != kindView && r.places != 0:
		return r, fmt.Errorf("sends %s with %d places, want none", kindName(r.kind), r.places)
	}
	return r, nil
}

// checkSum checks the sum of b, the received record r with its body. It overwrites the sum
// in b with zeros.
func checkSum(r record, b []byte, table *crc32.Table) error {
	clear(b[4:8])
	if got := crc32.Checksum(b, table); got != r.sum {
		return fmt.Errorf("sends %s of exchange %d whose sum is %08x, want %08x", kindName(r.kind), r.seq, got, r.sum)
	}
	return nil
}

// appendPlaces appends the places in a record's body. It returns an error unless together
// they have total bytes.
func appendPlaces(to []place, body []byte, total uint64) ([]place, error) {
	left := total
	for ; len(body) > 0; body = body[placeBytes:] {
		p := place{binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:])}
		if p.n == 0 || p.n > left || p.at+p.n < p.at {
			return nil, fmt.Errorf("sends a place of %d bytes at %#x, want 1 to %d bytes", p.n, p.at, left)
		}
		left -= p.n
		to = append(to, p)
	}
	if left != 0 {
		return nil, fmt.Errorf("sends places of %d bytes, want %d", total-left, total)
	}
	return to, nil
}
