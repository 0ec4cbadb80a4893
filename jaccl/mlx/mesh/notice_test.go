package mesh

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/link"
)

func TestNotice(t *testing.T) {
	for _, n := range []notice{
		{link.KindCause, true, 3, "rank 3 failed: out of memory"},
		{link.KindLost, false, 0, ""},
		{link.KindDeadline, true, 7, strings.Repeat("x", noticeText)},
	} {
		got, err := readNotice(bytes.NewReader(n.append(nil)), 8)
		require.NoError(t, err)
		if got != n {
			t.Errorf("%v, want %v", got, n)
		}
	}
	long := notice{link.KindCause, true, 1, strings.Repeat("y", noticeText+5)}
	got, err := readNotice(bytes.NewReader(long.append(nil)), 2)
	require.NoError(t, err)
	if len(got.text) != noticeText {
		t.Errorf("a text of %d bytes, want it cut to %d", len(got.text), noticeText)
	}
	for _, bad := range []string{
		noticeMagic + "\x00\x02\x00\x00",             // rank 2 of 2
		noticeMagic + "\x06\x01\x00\x00",             // no such kind
		noticeMagic + "\x00\x01\xe9\x03" + long.text, // 1001 bytes
		"gomoe\x00\x00\x02\x00\x01\x00\x00",          // another version
		noticeMagic + "\x00\x01\x05\x00four",
	} {
		if n, err := readNotice(strings.NewReader(bad), 2); err == nil {
			t.Errorf("%.20q gives %v, want an error", bad, n)
		}
	}
	for kind := link.KindMismatch; kind <= link.KindLost; kind++ {
		if kind.Err() == nil || link.KindOf(kind.Err()) != kind {
			t.Errorf("kind %d is %v, which is %d", kind, kind.Err(), link.KindOf(kind.Err()))
		}
	}
	if link.KindOf(io.EOF) != link.KindCause {
		t.Error("an error of no kind has one")
	}
}

// Nothing that a connection brings is trusted.
func FuzzReadNotice(f *testing.F) {
	f.Add(notice{link.KindLost, true, 1, "rank 1 has ended"}.append(nil))
	f.Add([]byte(noticeMagic + "\x09\x00\x00\x00"))
	f.Add([]byte(noticeMagic + "\x00\x08\xff\xff"))
	f.Add([]byte(noticeMagic + "\x00\x08\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := readNotice(bytes.NewReader(b), 4)
		if err != nil {
			return
		}
		if n.rank < 0 || n.rank > 3 || n.kind > link.KindLost || len(n.text) > noticeText {
			t.Fatalf("%q gives %v", b, n)
		}
		if again := n.append(nil); !bytes.HasPrefix(b, again) {
			t.Fatalf("%q is written again as %q", b, again)
		}
	})
}
