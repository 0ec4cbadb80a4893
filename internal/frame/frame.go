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
	// Size is the size of a header in bytes.
	Size = 28
	// version is the version of frames and of the protocols using them.
	version = 1

	magic = 0x676d6f65 // "gmoe"
)

// ErrStranger is the error for data that does not begin like a frame: the peer is not
// gomoe.
var ErrStranger = errors.New("frame: not a frame of gomoe")

// Header precedes a head.
type Header struct {
	Type uint8
	Seq  uint32
	Head int   // bytes of the head
	Data int64 // bytes of data following it

	sum uint32
}

// Append appends the header and the head of a frame to dst. It sets the header's
// Head to the length of head. The caller sends the data, if there is any.
func Append(dst []byte, h Header, head []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, magic)
	dst = append(dst, version, h.Type, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, h.Seq)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(head)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Data))
	dst = binary.BigEndian.AppendUint32(dst, checksum(dst[start:], head))
	return append(dst, head...)
}

// Parse reads a header. A head of more than limit bytes is an error, and so are
// another version and anything that is not a header. The checksum is verified by
// Check, once the head has arrived.
func Parse(b []byte, limit int) (Header, error) {
	if len(b) < Size {
		return Header{}, fmt.Errorf("frame: header of %d bytes, want %d", len(b), Size)
	}
	if err := begins(b); err != nil {
		return Header{}, err
	}
	if b[4] != version {
		return Header{}, fmt.Errorf("frame: version %d of the protocol, want %d; run one version of gomoe on all ranks", b[4], version)
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

// begins checks the first four bytes; the error quotes b.
func begins(b []byte) error {
	if binary.BigEndian.Uint32(b) == magic {
		return nil
	}
	return fmt.Errorf("%w: it begins with %q, want %q", ErrStranger, b[:min(len(b), 8)], "gmoe")
}

// Check verifies the checksum of header, from which h was parsed, and of head.
func (h Header) Check(header, head []byte) error {
	if sum := checksum(header[:24], head); sum != h.sum {
		return fmt.Errorf("frame: checksum of frame %d is %#08x, want %#08x", h.Seq, sum, h.sum)
	}
	return nil
}

func checksum(header, head []byte) uint32 {
	// MakeTable returns the same table in every call for Castagnoli.
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Update(0, table, header[:24]), table, head)
}

// Read reads one frame without data, and no byte after it. If r fails before the
// first byte, its error is returned unchanged; if a frame ends early, the error is
// io.ErrUnexpectedEOF.
func Read(r io.Reader, limit int) (Header, []byte, error) {
	var b [Size]byte
	// A stranger is recognised by its first bytes, and may send no others.
	n, err := io.ReadAtLeast(r, b[:], 4)
	if err != nil {
		return Header{}, nil, err
	}
	if err := begins(b[:n]); err != nil {
		return Header{}, nil, err
	}
	if _, err := io.ReadFull(r, b[n:]); err != nil {
		return Header{}, nil, unexpected(err)
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
		return Header{}, nil, unexpected(err)
	}
	return h, head, h.Check(b[:], head)
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Write writes a frame without data.
func Write(w io.Writer, typ uint8, seq uint32, head []byte) error {
	_, err := w.Write(Append(nil, Header{Type: typ, Seq: seq}, head))
	return err
}
