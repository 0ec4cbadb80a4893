package watch

import (
	"fmt"

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
