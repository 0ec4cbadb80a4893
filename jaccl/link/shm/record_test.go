//go:build linux || darwin

package shm

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/gomoe/gomoe/jaccl/link"
)

func FuzzAnnouncement(f *testing.F) {
	f.Add(encode(announcement{Pid: 3, Size: 5, Nonce: make([]byte, nonceBytes)}))
	f.Add([]byte(`{"pid":1}{}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAnnouncement(b)
		if err != nil {
			return
		}
		if again, err := parseAnnouncement(encode(a)); err != nil || again.Pid != a.Pid || again.Path != a.Path {
			t.Errorf("%+v is read as %+v, %v", a, again, err)
		}
		if s, err := newLayout(1, 3, a.Ring, a.Size, 4096); err == nil && (s.rings(0) < s.channel(3) || s.rings(2)+int64(s.ring) > s.arena || s.arena > s.size) {
			t.Errorf("layout %+v of %+v", s, a)
		}
	})
}

func FuzzRecord(f *testing.F) {
	table := newTable()
	f.Add(appendRecord(nil, record{kind: kindHead, seq: 1, bytes: 3}, []byte("abc"), table), true)
	places := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 4096), 10)
	f.Add(appendRecord(nil, record{kind: kindView, seq: 1, bytes: 10, places: 1}, places, table), false)
	f.Add(appendRecord(nil, record{kind: kindData, seq: 1, bytes: 10}, nil, table), false)
	f.Fuzz(func(t *testing.T, b []byte, head bool) {
		if len(b) < recordBytes {
			return
		}
		r, err := parseRecord(b[:recordBytes], head, 1)
		if err != nil {
			return
		}
		n := recordBytes + r.body()
		if n > recordBytes+link.MaxHead || n < recordBytes {
			t.Fatalf("%+v has a body of %d bytes", r, r.body())
		}
		if len(b) < n {
			return
		}
		b = bytes.Clone(b[:n])
		if r.kind == kindView {
			if ps, err := appendPlaces(nil, b[recordBytes:], r.bytes); err == nil {
				total := uint64(0)
				for _, p := range ps {
					total += p.n
				}
				if total != r.bytes || len(ps) != int(r.places) {
					t.Errorf("%+v has places %v", r, ps)
				}
			}
		}
		if checkSum(r, bytes.Clone(b), table) == nil {
			if again := appendRecord(nil, r, b[recordBytes:], table); !bytes.Equal(again, b) {
				t.Errorf("%x is written as %x", b, again)
			}
		}
	})
}
