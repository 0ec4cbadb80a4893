package mesh

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/mlx/headless"
)

// party watches the side channel of a running job. It waits for connections to end,
// meaning that a rank has ended, and for notices of ranks of this package. Rank 0
// forwards its notices. A rank of JACCL sends no notices, and only rank 0 has a
// connection with it.
type party struct {
	side *sideChannel
	// first is the job's failure. gone holds, by rank, the failure reporting the rank's
	// departure; it becomes the job's failure when an operation waits for the rank.
	first atomic.Pointer[headless.FailureError]
	gone  []atomic.Pointer[headless.FailureError]
	mu    sync.Mutex // held to write to connections
	wg    sync.WaitGroup
	// leaving is set before this rank closes its connections. After that, the end of a
	// connection is no information about the other rank.
	leaving atomic.Bool
}

func newParty(s *sideChannel) *party {
	p := &party{side: s, gone: make([]atomic.Pointer[headless.FailureError], s.size)}
	for r, c := range s.conns {
		if c == nil {
			continue
		}
		p.wg.Go(func() {
			for {
				n, err := readNotice(c, s.size)
				if p.leaving.Load() {
					return
				}
				if err != nil {
					n = notice{link.KindLost, false, r, fmt.Sprintf("rank %d has ended, or closed its connection (%v)", r, err)}
				}
				p.hear(n)
				p.tell(n, r)
				if err != nil {
					return
				}
			}
		})
	}
	return p
}

// hear records a notice.
func (p *party) hear(n notice) {
	f := &headless.FailureError{Blame: []int{n.rank}, Text: n.text, Err: n.kind.Err()}
	if n.fatal {
		p.first.CompareAndSwap(nil, f)
	} else {
		p.gone[n.rank].CompareAndSwap(nil, f)
	}
}

// fail makes f the job's failure, unless the job has failed before, and tells the other
// ranks. It returns the job's failure.
func (p *party) fail(f *headless.FailureError) *headless.FailureError {
	if p.first.CompareAndSwap(nil, f) {
		p.tell(notice{link.KindOf(f.Err), true, f.Blame[0], f.Text}, -1)
	}
	return p.first.Load()
}

// tell sends a notice to every rank connected to this rank, except the sender of the
// notice; from is -1 if there is none. It waits at most 100 ms for a rank that does not
// read.
func (p *party) tell(n notice, from int) {
	if p.side.rank > 0 && from >= 0 {
		return // it came from rank 0, which has told all ranks
	}
	b := n.append(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	for r, c := range p.side.conns {
		if c == nil || r == from {
			continue
		}
		c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		c.Write(b) // a rank that cannot be reached notices by itself
	}
}

func (p *party) close() {
	p.leaving.Store(true)
	p.side.close()
	p.wg.Wait()
}

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
