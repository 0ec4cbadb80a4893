package meet

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/gomoe/gomoe/internal/frame"
)

// The types of frames.
const (
	typeHello     = 1 + iota // from the side that connects: who it is, and its nonce
	typeChallenge            // from the side that accepts: its nonce, and its meeting's number
	typeProof                // proves that the connecting side knows the secret
	typeWelcome              // proves that the accepting side knows it
	typeRefusal              // why the side that accepts turns the other away
	typeGather               // to the coordinator: a key and the rank's data
	typeResult               // from the coordinator: the data of all ranks
	typeFailure              // in both directions: the place is broken, and why
	typeLeave                // to the coordinator: this rank closes its place
)

const (
	nonceSize = 32
	proofSize = 32
	// challengeSize is the size of a nonce and of the number of the meeting.
	challengeSize = nonceSize + 8
	maxName       = 256
	maxKey        = 200 // of Gather and Dial; with a prefix, "gather " or "dial ", it is a name
	maxHello      = 2 << 10
	maxText       = 8 << 10
	maxFacts      = 256
	maxFact       = 4 << 10
	// maxGather is the largest number of bytes that one rank may pass to Gather.
	maxGather = 1 << 20
)

// hello is the first message of the connecting side.
type hello struct {
	job     uuid.UUID
	rank    int // the rank that connects
	size    int
	to      int // the rank to reach
	host    string
	purpose string // the connection's purpose
	meeting int    // for a Dial, this meeting; for a join, the rank's last meeting
	turn    int    // the number of the connection's Dial
	nonce   [nonceSize]byte
}

func (h *hello) encode() []byte {
	b := frame.Bytes(nil, h.job[:])
	b = frame.Uint(b, uint64(h.rank))
	b = frame.Uint(b, uint64(h.size))
	b = frame.Uint(b, uint64(h.to))
	b = frame.String(b, h.host)
	b = frame.String(b, h.purpose)
	b = frame.Uint(b, uint64(h.meeting))
	b = frame.Uint(b, uint64(h.turn))
	return frame.Bytes(b, h.nonce[:])
}

func decodeHello(b []byte) (*hello, error) {
	h, f := &hello{}, frame.NewFields(b)
	job := f.Bytes(len(h.job))
	// Ranks outside the job are not refused here: they get a better error once the other
	// side has proved that it belongs to the job.
	h.rank, h.size, h.to = f.Int(1<<31-1), f.Int(1<<31-1), f.Int(1<<31-1)
	h.host, h.purpose = f.String(maxName), f.String(maxName)
	h.meeting, h.turn = f.Int(1<<31-1), f.Int(1<<31-1)
	nonce := f.Bytes(nonceSize)
	if err := f.End(); err != nil {
		return nil, err
	}
	if len(job) != len(h.job) || len(nonce) != nonceSize {
		return nil, fmt.Errorf("meet: a job of %d bytes and a nonce of %d, want %d and %d", len(job), len(nonce), len(h.job), nonceSize)
	}
	copy(h.job[:], job)
	copy(h.nonce[:], nonce)
	return h, nil
}
