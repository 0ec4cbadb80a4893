package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

const (
	// Size is the bytes of a header.
	Size = 28
	// Version is that of the frames and of the protocols that are made of them.
	Version = 1

	magic = 0x676d6f65 // "gmoe"
)

// ErrStranger is what begins otherwise than a frame: somebody else is talking.
var ErrStranger = errors.New("frame: not a frame of gomoe")

// Header is what precedes a head.
type Header struct {
	Type uint8
	Seq  uint32
	Head int   // bytes of the head
	Data int64 // bytes of data that follow it

	sum uint32
}

// Append appends the header and the head of a frame to dst; h.Head is taken from
// the head's length. The data, if any, is the caller's to send.
func Append(dst []byte, h Header, head []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, magic)
	dst = append(dst, Version, h.Type, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, h.Seq)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(head)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Data))
	dst = binary.BigEndian.AppendUint32(dst, checksum(dst[start:], head))
	return append(dst, head...)
}

// Parse reads a header. A head of more than limit bytes is an error, and so are
// another version and anything that is no header. Check compares the checksum when
// the head has come.
func Parse(b []byte, limit int) (Header, error) {
	if len(b) < Size {
		return Header{}, fmt.Errorf("frame: header of %d bytes, want %d", len(b), Size)
	}
	if got := binary.BigEndian.Uint32(b); got != magic {
		return Header{}, fmt.Errorf("%w: it begins with %q, want %q", ErrStranger, b[:8], "gmoe")
	}
	if b[4] != Version {
		return Header{}, fmt.Errorf("frame: version %d of the protocol, want %d; run one version of gomoe on all ranks", b[4], Version)
	}
	if b[6] != 0 || b[7] != 0 {
		return Header{}, fmt.Errorf("frame: bytes %#x where 0 is reserved", b[6:8])
	}
	h := Header{
		Type: b[5],
		Seq:  binary.BigEndian.Uint32(b[8:]),
		sum:  binary.BigEndian.Uint32(b[24:]),
	}
	head, data := binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint64(b[16:])
	if int64(head) > int64(limit) {
		return Header{}, fmt.Errorf("frame: head of %d bytes, want at most %d", head, limit)
	}
	if data > math.MaxInt64 {
		return Header{}, fmt.Errorf("frame: %d bytes of data, want at most %d", data, int64(math.MaxInt64))
	}
	h.Head, h.Data = int(head), int64(data)
	return h, nil
}

// Check compares the checksum of the header that h was parsed from and its head.
func (h Header) Check(header, head []byte) error {
	if sum := checksum(header[:24], head); sum != h.sum {
		return fmt.Errorf("frame: checksum of frame %d is %#08x, want %#08x", h.Seq, sum, h.sum)
	}
	return nil
}

func checksum(header, head []byte) uint32 {
	// MakeTable returns one table, made once.
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Update(0, table, header[:24]), table, head)
}

// Read reads one frame without data, and not a byte more. An error of r is
// returned as it is when nothing has come, as io.ErrUnexpectedEOF when a frame
// ends early.
func Read(r io.Reader, limit int) (Header, []byte, error) {
	var b [Size]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Header{}, nil, err
	}
	h, err := Parse(b[:], limit)
	if err != nil {
		return Header{}, nil, err
	}
	if h.Data != 0 {
		return Header{}, nil, fmt.Errorf("frame: %d bytes of data after frame %d of type %d, want none", h.Data, h.Seq, h.Type)
	}
	head := make([]byte, h.Head)
	if _, err := io.ReadFull(r, head); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Header{}, nil, err
	}
	return h, head, h.Check(b[:], head)
}

// Write writes a frame without data.
func Write(w io.Writer, typ uint8, seq uint32, head []byte) error {
	_, err := w.Write(Append(nil, Header{Type: typ, Seq: seq}, head))
	return err
}
