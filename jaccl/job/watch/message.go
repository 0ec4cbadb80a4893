package watch

import (
	"fmt"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/frame"
	"github.com/gomoe/gomoe/jaccl/link"
)

// The types of frames.
const (
	typePing   = 1 + iota // asks for the peer's time, with the sender's time
	typePong              // answers a ping: its time, and the times of its arrival and of the answer
	typeNotice            // a failure
	typeLeave             // the sender is done
	typeDump              // asks the peer to record its state
	typeAsk               // asks the peer for the operation where it waits
	typeWhere             // answers typeAsk: the sender's current operation
	typePart              // the sender has closed a group
)

const (
	maxText  = 16 << 10
	maxBlame = 1 << 16
	maxOp    = 256
	maxFile  = 4 << 10
	maxScope = 4 << 10
	// maxMessage is the largest size of a frame's head in bytes.
	maxMessage = maxText + 8*maxBlame + maxOp + maxFile + maxScope + 1<<10
)

// encodeNotice encodes a notice. Texts and lists that are too long lose their ends.
func encodeNotice(n link.Notice) []byte {
	b := frame.Uint(nil, uint64(n.From))
	b = frame.Uint(b, uint64(n.Kind))
	blame := n.Blame[:min(len(n.Blame), maxBlame)]
	b = frame.Uint(b, uint64(len(blame)))
	for _, r := range blame {
		b = frame.Uint(b, uint64(r))
	}
	b = frame.String(b, n.Text[:min(len(n.Text), maxText)])
	b = frame.String(b, n.Call.Op[:min(len(n.Call.Op), maxOp)])
	b = frame.Uint(b, uint64(int64(n.Call.Seq)))
	b = frame.Uint(b, uint64(n.Call.DType))
	b = frame.Uint(b, uint64(n.Call.Bytes))
	b = frame.String(b, n.Call.Pos.File[:min(len(n.Call.Pos.File), maxFile)])
	b = frame.Uint(b, uint64(int64(n.Call.Pos.Line)))
	return frame.String(b, n.Call.Pos.Scope[:min(len(n.Call.Pos.Scope), maxScope)])
}

// decodeNotice decodes a notice in a job of size ranks.
func decodeNotice(b []byte, size int) (link.Notice, error) {
	f := frame.NewFields(b)
	n := link.Notice{From: f.Int(size - 1), Kind: link.Kind(f.Int(int(link.KindLost)))}
	blame := f.Int(min(size, maxBlame))
	for range blame {
		n.Blame = append(n.Blame, f.Int(size-1))
	}
	n.Text = f.String(maxText)
	n.Call = collective.Call{Op: f.String(maxOp), Seq: int(int64(f.Uint())), DType: graph.DType(f.Int(255)), Bytes: int64(f.Uint())}
	n.Call.Pos.File = f.String(maxFile)
	n.Call.Pos.Line = int(int64(f.Uint()))
	n.Call.Pos.Scope = f.String(maxScope)
	if err := f.End(); err != nil {
		return link.Notice{}, fmt.Errorf("watch: notice: %w", err)
	}
	return n, nil
}

// encodeWaiting encodes a rank's Waiting. Texts and lists that are too long lose their
// ends.
func encodeWaiting(a link.Waiting) []byte {
	b := frame.String(nil, a.Text[:min(len(a.Text), link.MaxWaiting)])
	ranks := a.For[:min(len(a.For), maxBlame)]
	b = frame.Uint(b, uint64(len(ranks)))
	for _, r := range ranks {
		b = frame.Uint(b, uint64(r))
	}
	return b
}

// decodeWaiting decodes a rank's Waiting in a job of size ranks.
func decodeWaiting(b []byte, size int) (link.Waiting, error) {
	f := frame.NewFields(b)
	a := link.Waiting{Text: f.String(link.MaxWaiting)}
	for range f.Int(min(size, maxBlame)) {
		a.For = append(a.For, f.Int(size-1))
	}
	if err := f.End(); err != nil {
		return link.Waiting{}, fmt.Errorf("watch: whereabouts: %w", err)
	}
	return a, nil
}

func encodeParting(a link.Parting) []byte {
	return frame.Uint(frame.Uint(nil, a.Group), a.Begun)
}

func decodeParting(b []byte) (link.Parting, error) {
	f := frame.NewFields(b)
	a := link.Parting{Group: f.Uint(), Begun: f.Uint()}
	if err := f.End(); err != nil {
		return link.Parting{}, fmt.Errorf("watch: parting: %w", err)
	}
	return a, nil
}

// decodeTimes reads n times in nanoseconds.
func decodeTimes(b []byte, n int) ([]int64, error) {
	f := frame.NewFields(b)
	times := make([]int64, n)
	for i := range times {
		times[i] = int64(f.Uint())
	}
	if err := f.End(); err != nil {
		return nil, fmt.Errorf("watch: times: %w", err)
	}
	return times, nil
}

// before reports whether notice a is preferred to notice b: its kind is less likely to be a
// consequence of another failure, or the kinds are equal and its rank is lower.
func before(a, b link.Notice) bool {
	if x, y := weight(a.Kind), weight(b.Kind); x != y {
		return x < y
	}
	return a.From < b.From
}

func weight(k link.Kind) int {
	switch k {
	case link.KindLost:
		return 1
	case link.KindArgument:
		return 2
	case link.KindMismatch:
		return 3
	case link.KindCause:
		return 4
	case link.KindClosed:
		return 5
	}
	return 6
}

// maxEarly is the number of partings kept until Hear is called. Further ones are dropped.
const maxEarly = 1 << 12

// parting forwards other ranks' partings to the caller of Hear. The watch's lock guards
// it.
type parting struct {
	hear  func(from int, p link.Parting)
	early []struct { // partings received before hear was set
		from int
		p    link.Parting
	}
}

// told passes on the parting that rank from has sent. The watch's lock is held.
func (h *parting) told(from int, p link.Parting) {
	switch {
	case h.hear != nil:
		h.hear(from, p)
	case len(h.early) < maxEarly:
		h.early = append(h.early, struct {
			from int
			p    link.Parting
		}{from, p})
	}
}

// Tell implements link.Watch.
func (w *Watch) Tell(rank int, p link.Parting) {
	if rank >= 0 && rank < len(w.peers) && w.peers[rank] != nil {
		w.peers[rank].send(typePart, encodeParting(p))
	}
}

// Hear implements link.Watch.
func (w *Watch) Hear(f func(from int, p link.Parting)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hear = f
	for _, e := range w.early {
		f(e.from, e.p)
	}
	w.early = nil
}

// asking holds both sides of the question about ranks' current operations. The watch's
// lock guards it.
type asking struct {
	answer  func() link.Waiting  // this rank's whereabouts; nil until Answer is called
	answers map[int]link.Waiting // other ranks' answers to Ask; nil if no Ask is in progress
	news    chan struct{}        // buffers one signal: a rank has answered, or is gone
}

// answered wakes Ask: a rank has answered or is gone. The watch's lock is held.
func (a *asking) answered() {
	select {
	case a.news <- struct{}{}:
	default: // Ask has not seen the last news yet, or no Ask is in progress
	}
}

// Answer implements link.Watch.
func (w *Watch) Answer(f func() link.Waiting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}

// Ask implements link.Watch. One goroutine at a time may call it.
func (w *Watch) Ask(d time.Duration) map[int]link.Waiting {
	timer := time.NewTimer(d)
	defer timer.Stop()
	w.mu.Lock()
	w.answers, w.news = map[int]link.Waiting{}, make(chan struct{}, 1)
	news := w.news
	for _, p := range w.others() {
		p.send(typeAsk, nil)
	}
	w.mu.Unlock()
	for waiting := true; waiting; {
		w.mu.Lock()
		waiting = false
		for _, p := range w.others() {
			_, ok := w.answers[p.rank]
			waiting = waiting || !ok && !p.left && !p.gone
		}
		w.mu.Unlock()
		if !waiting {
			break
		}
		select {
		case <-news:
		case <-timer.C:
			waiting = false
		case <-w.down:
			waiting = false
		case <-w.quit:
			waiting = false
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.answers
	w.answers, w.news = nil, nil
	return all
}
