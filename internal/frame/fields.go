package frame

import (
	"encoding/binary"
	"fmt"
)

// Bytes appends the length of b and then b.
func Bytes(dst, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(b))), b...)
}

// String is Bytes for a string.
func String(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(s))), s...)
}

// Uint appends a number of 8 bytes.
func Uint(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// Fields reads the output of Bytes, String and Uint in the same order. A result is never
// longer than the input. After the first error every result is empty; End returns that
// error.
type Fields struct {
	b   []byte
	err error
}

// NewFields returns a reader of the fields in b. The results of Bytes alias b, which
// stays the caller's.
func NewFields(b []byte) *Fields { return &Fields{b: b} }

// Bytes reads a field of at most limit bytes.
func (f *Fields) Bytes(limit int) []byte {
	if len(f.b) < 4 {
		f.fail("%d bytes where the length of a field is wanted", len(f.b))
		return nil
	}
	n := binary.BigEndian.Uint32(f.b)
	if int64(n) > int64(limit) || int64(n) > int64(len(f.b)-4) {
		f.fail("a field of %d bytes, want at most %d", n, min(limit, len(f.b)-4))
		return nil
	}
	b := f.b[4 : 4+n : 4+n]
	f.b = f.b[4+n:]
	return b
}

// String reads a field of at most limit bytes.
func (f *Fields) String(limit int) string { return string(f.Bytes(limit)) }

// Uint reads a number.
func (f *Fields) Uint() uint64 {
	if len(f.b) < 8 {
		f.fail("%d bytes where a number is wanted", len(f.b))
		return 0
	}
	v := binary.BigEndian.Uint64(f.b)
	f.b = f.b[8:]
	return v
}

// Int reads a number from 0 to limit.
func (f *Fields) Int(limit int) int {
	v := f.Uint()
	if v > uint64(limit) {
		f.fail("number %d, want at most %d", v, limit)
		return 0
	}
	return int(v)
}

// End returns the first error, or an error if bytes are left unread.
func (f *Fields) End() error {
	if f.err == nil && len(f.b) > 0 {
		f.fail("%d bytes after the last field", len(f.b))
	}
	return f.err
}

func (f *Fields) fail(format string, a ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("frame: "+format, a...)
	}
	f.b = nil
}
