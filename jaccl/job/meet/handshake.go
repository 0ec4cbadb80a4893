package meet

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/google/uuid"

	"github.com/gomoe/gomoe/internal/frame"
)

// handshakeTime is the time limit for a connection to prove that it belongs to the job.
// The handshake is four short messages.
const handshakeTime = 5 * time.Second

// refusal is the error when the other side turns this connection away.
type refusal struct{ text string }

func (r *refusal) Error() string { return "refused: " + r.text }

// errSecret: the other side's proof was made with another secret.
var errSecret = errors.New("its secret is not this job's")

// proof returns the proof of one side. The roles of the two sides differ, so that a
// side's own proof cannot be replayed to it.
func proof(secret []byte, role string, hello, challenge []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write(frame.Bytes(frame.Bytes(frame.String(nil, "gomoe meet "+role), hello), challenge))
	return m.Sum(nil)
}

// knock introduces this rank to the rank that it has connected to, checking that the
// other rank knows the secret as well. It returns the number of the other rank's meeting.
// The error is a *refusal if the other rank turns this one away or does not know the
// secret.
func knock(ctx context.Context, conn net.Conn, secret []byte, h *hello) (meeting int, err error) {
	defer bound(ctx, conn, handshakeTime)()
	if _, err := rand.Read(h.nonce[:]); err != nil {
		return 0, err
	}
	said := h.encode()
	if err := frame.Write(conn, typeHello, 0, said); err != nil {
		return 0, err
	}
	challenge, err := expect(conn, typeChallenge, 0, challengeSize)
	if err != nil {
		return 0, err
	}
	if err := frame.Write(conn, typeProof, 1, proof(secret, "connects", said, challenge)); err != nil {
		return 0, err
	}
	shown, err := expect(conn, typeWelcome, 1, proofSize)
	if err != nil {
		return 0, err
	}
	if !hmac.Equal(shown, proof(secret, "accepts", said, challenge)) {
		return 0, &refusal{errSecret.Error()}
	}
	f := frame.NewFields(challenge[nonceSize:])
	return f.Int(1<<31 - 1), f.End()
}

// admit is the other side of knock. It calls first with the other side's introduction; if
// first returns an error, the other side gets it, without the jobs' ids. When admit
// returns without an error, the other side has proved that it knows the secret. It then
// waits for the welcome, which the returned function sends. patience limits admit, and
// the welcome again.
func admit(ctx context.Context, conn net.Conn, patience time.Duration, secret []byte, meeting int, first func(*hello) error) (h *hello, welcome func() error, err error) {
	defer bound(ctx, conn, patience)()
	_, said, err := read(conn, typeHello, 0, maxHello)
	if err != nil {
		return nil, nil, err
	}
	h, err = decodeHello(said)
	if err != nil {
		return nil, nil, err
	}
	if err := first(h); err != nil {
		text := err.Error()
		if errors.Is(err, errJob) {
			text = errJob.Error()
		}
		refuse(conn, text)
		return nil, nil, err
	}
	challenge := make([]byte, nonceSize, challengeSize)
	if _, err := rand.Read(challenge); err != nil {
		return nil, nil, err
	}
	challenge = frame.Uint(challenge, uint64(meeting))
	if err := frame.Write(conn, typeChallenge, 0, challenge); err != nil {
		return nil, nil, err
	}
	shown, err := expect(conn, typeProof, 1, proofSize)
	if err != nil {
		return nil, nil, err
	}
	if !hmac.Equal(shown, proof(secret, "connects", said, challenge)) {
		refuse(conn, errSecret.Error())
		return nil, nil, errSecret
	}
	return h, func() error {
		defer bound(ctx, conn, patience)()
		return frame.Write(conn, typeWelcome, 1, proof(secret, "accepts", said, challenge))
	}, nil
}

// refuse sends the other side the reason for turning it away. The text is for display and
// may be lost.
func refuse(conn net.Conn, text string) {
	conn.SetWriteDeadline(time.Now().Add(time.Second))
	if frame.Write(conn, typeRefusal, 0, []byte(clip(text))) == nil {
		hangUp(conn)
	}
}

// hangUp closes the connection in a way that lets the other side read the last message.
// If unread bytes were left, closing would be a reset, which can overtake the data. So
// hangUp first reads a little and waits a moment for the other side to close.
func hangUp(conn net.Conn) {
	if c, ok := conn.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
		conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		io.CopyN(io.Discard, conn, 64<<10)
	}
	conn.Close()
}

// read reads a frame of the given type and number, with at most limit bytes. If a refusal
// or a failure arrives instead, the error is a *refusal or a *failure with its text.
func read(conn io.Reader, typ uint8, seq uint32, limit int) (frame.Header, []byte, error) {
	h, head, err := frame.Read(conn, max(limit, maxText))
	switch {
	case err != nil:
		return h, nil, err
	case h.Type == typeRefusal:
		return h, nil, &refusal{printable(head)}
	case h.Type == typeFailure:
		return h, nil, &failure{printable(head)}
	case h.Type != typ || h.Seq != seq:
		return h, nil, fmt.Errorf("meet: frame %d of type %d, want %d of type %d", h.Seq, h.Type, seq, typ)
	case len(head) > limit:
		return h, nil, fmt.Errorf("meet: frame of %d bytes, want at most %d", len(head), limit)
	}
	return h, head, nil
}

// expect is read for a frame of exactly n bytes, which it returns.
func expect(conn io.Reader, typ uint8, seq uint32, n int) ([]byte, error) {
	_, b, err := read(conn, typ, seq, n)
	if err == nil && len(b) != n {
		err = fmt.Errorf("meet: frame of %d bytes, want %d", len(b), n)
	}
	return b, err
}

// bound makes reads and writes of conn fail after d, and when ctx ends. The returned
// function removes the limit, unless ctx has ended.
func bound(ctx context.Context, conn net.Conn, d time.Duration) func() {
	conn.SetDeadline(time.Now().Add(d))
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		conn.SetDeadline(time.Unix(1, 0))
		close(done)
	})
	return func() {
		if !stop() {
			<-done
			return // ctx has ended: the connection will be closed soon
		}
		conn.SetDeadline(time.Time{})
	}
}

// clip returns the beginning of a text fitting into a frame.
func clip(text string) string {
	return text[:min(len(text), maxText)]
}

// printable returns a text that another process has sent, in a form that cannot confuse a
// terminal.
func printable(b []byte) string {
	out := make([]rune, 0, len(b))
	for _, r := range string(b) {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			r = '?'
		}
		out = append(out, r)
	}
	return string(out)
}

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
