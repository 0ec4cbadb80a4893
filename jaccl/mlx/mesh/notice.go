package mesh

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gomoe/gomoe/jaccl/link"
)

// notice is a message among ranks of this package on JACCL's side channel, which JACCL's
// own ranks no longer read once the job runs. It reports a failure, or that a rank
// leaves. On the wire it is noticeMagic, the kind (plus 128 if the notice is fatal), the
// rank concerned, the length of the text as 2 bytes, and the text.
type notice struct {
	kind  link.Kind // kind of the error
	fatal bool      // it ends the job; otherwise only operations waiting for the rank fail
	rank  int
	text  string
}

const (
	noticeMagic  = "gomoe\x00\x00\x01"
	noticeHeader = len(noticeMagic) + 1 + 1 + 2
	noticeText   = 1000 // the most bytes of a text
	fatalBit     = 1 << 7
)

func (n notice) append(b []byte) []byte {
	text := n.text[:min(len(n.text), noticeText)]
	kind := byte(n.kind)
	if n.fatal {
		kind |= fatalBit
	}
	b = append(append(b, noticeMagic...), kind, byte(n.rank))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	return append(b, text...)
}

// readNotice reads one notice of a job of size ranks.
func readNotice(r io.Reader, size int) (notice, error) {
	var h [noticeHeader]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return notice{}, err
	}
	if string(h[:len(noticeMagic)]) != noticeMagic {
		return notice{}, errors.New("it sends what is no notice")
	}
	rest := h[len(noticeMagic):]
	n := notice{kind: link.Kind(rest[0] &^ fatalBit), fatal: rest[0]&fatalBit != 0, rank: int(rest[1])}
	length := int(binary.LittleEndian.Uint16(rest[2:]))
	if n.kind > link.KindLost || n.rank >= size || length > noticeText {
		return notice{}, fmt.Errorf("it sends a notice of kind %d about rank %d in %d bytes, want a kind of at most %d, a rank below %d and at most %d bytes", n.kind, n.rank, length, link.KindLost, size, noticeText)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return notice{}, err
	}
	n.text = string(text)
	return n, nil
}
