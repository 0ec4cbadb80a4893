package frame

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestRoundTrip(t *testing.T) {
	var stream []byte
	heads := [][]byte{nil, []byte("a"), bytes.Repeat([]byte("xyz"), 1000)}
	for i, head := range heads {
		stream = Append(stream, Header{Type: uint8(7 + i), Seq: uint32(i) + math.MaxUint32 - 1}, head)
	}
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(stream), "bytes": iotest.OneByteReader(bytes.NewReader(stream))} {
		for i, head := range heads {
			h, got, err := Read(r, 3000)
			require.NoError(t, err, name)
			if want := uint32(i) + math.MaxUint32 - 1; h.Type != uint8(7+i) || h.Seq != want || h.Head != len(head) || !bytes.Equal(got, head) {
				t.Errorf("%s: frame %d is %+v %q", name, i, h, got)
			}
		}
		if _, _, err := Read(r, 3000); err != io.EOF {
			t.Errorf("%s: after the last frame: %v, want EOF", name, err)
		}
	}
	b := Append(nil, Header{Type: 1, Seq: 2, Data: 1 << 40}, []byte("head"))
	h, err := Parse(b, 4)
	require.NoError(t, err)
	if h.Data != 1<<40 || h.Head != 4 || h.Check(b, b[Size:]) != nil {
		t.Errorf("header with data is %+v", h)
	}
}

// Every changed bit leads to an error, and every error says what is wrong.
func TestDamage(t *testing.T) {
	good := Append(nil, Header{Type: 3, Seq: 5}, []byte("some head"))
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			if _, _, err := Read(bytes.NewReader(b), 1<<10); err == nil {
				t.Errorf("bit %d of byte %d flipped: no error", bit, i)
			}
		}
	}
	for n := 1; n < len(good); n++ {
		if _, _, err := Read(bytes.NewReader(good[:n]), 1<<10); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d bytes: %v, want an unexpected end", n, len(good), err)
		}
	}
	r, w := io.Pipe()
	go w.Write([]byte("SSH-")) // and nothing more
	if _, _, err := Read(r, 1<<10); !errors.Is(err, ErrStranger) {
		t.Errorf("a stranger's first bytes: %v", err)
	}
	damaged := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"http", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), `it begins with "GET / HT", want "gmoe"`},
		{"version", damaged(4, 9), "version 9 of the protocol, want 1"},
		{"head", damaged(len(good)-1, 'D'), "checksum of frame 5 is 0x"},
		{"length", damaged(12, 0xff), "head of 4278190089 bytes, want at most 1024"},
		{"data", Append(nil, Header{Seq: 8, Data: 6}, nil), "6 bytes of data after frame 8"},
	} {
		_, _, err := Read(bytes.NewReader(c.b), 1<<10)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if stranger := c.name == "http"; errors.Is(err, ErrStranger) != stranger {
			t.Errorf("%s: a stranger: %v, want %v", c.name, !stranger, stranger)
		}
	}
}

func TestFields(t *testing.T) {
	b := Uint(String(Bytes(Uint(nil, 12), []byte{1, 2}), "three"), 4)
	f := NewFields(b)
	if n, x, s, m := f.Int(12), f.Bytes(2), f.String(5), f.Uint(); n != 12 || !bytes.Equal(x, []byte{1, 2}) || s != "three" || m != 4 || f.End() != nil {
		t.Errorf("fields %d %v %q %d %v", n, x, s, m, f.End())
	}
	for _, c := range []struct {
		name string
		read func(f *Fields)
		want string
	}{
		{"number", func(f *Fields) { f.Int(11) }, "number 12, want at most 11"},
		{"length", func(f *Fields) { f.Uint(); f.Bytes(1) }, "a field of 2 bytes, want at most 1"},
		{"rest", func(f *Fields) { f.Uint() }, "23 bytes after the last field"},
		{"beyond", func(f *Fields) { f.Uint(); f.Bytes(2); f.Bytes(5); f.Uint(); f.Uint() }, "0 bytes where a number"},
		{"more", func(f *Fields) { f.Uint(); f.Bytes(2); f.Bytes(5); f.Uint(); f.Bytes(9) }, "0 bytes where the length"},
	} {
		f := NewFields(b)
		c.read(f)
		if err := f.End(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// FuzzFrame checks that Read accepts only what Append writes, and reads no more of a
// stream than that.
func FuzzFrame(f *testing.F) {
	f.Add(Append(nil, Header{Type: 3, Seq: 5}, []byte("some head")))
	f.Add(Append(Append(nil, Header{}, nil), Header{Data: 4}, []byte("x")))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		h, head, err := Read(r, 100)
		if err != nil {
			return
		}
		again := Append(nil, h, head)
		if len(head) > 100 || !bytes.Equal(again, b[:len(b)-r.Len()]) {
			t.Errorf("%x was read as %+v %x, which is written as %x", b, h, head, again)
		}
	})
}

// FuzzFields checks that no bytes make the readers panic or return more than there is.
func FuzzFields(f *testing.F) {
	f.Add(Uint(String(Bytes(Uint(nil, 12), []byte{1, 2}), "three"), 4), []byte{0, 1, 2, 0})
	f.Fuzz(func(t *testing.T, b, script []byte) {
		fields, left := NewFields(b), len(b)
		for _, op := range script {
			switch op % 3 {
			case 0:
				fields.Int(1 << 20)
			case 1:
				left -= len(fields.Bytes(1 << 20))
			case 2:
				left -= len(fields.String(10))
			}
		}
		if err := fields.End(); left < 0 {
			t.Errorf("%d bytes more than there are; %v", -left, err)
		}
	})
}
