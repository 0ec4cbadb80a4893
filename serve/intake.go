package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/tokenizer"
)

const (
	// bodies is how many of the longest bodies the server holds at once.
	bodies = 8
	// smallBody is the largest body that is parsed without waiting for larger ones. Parsing takes up to 60 times its bytes.
	smallBody = 64 << 10
	// together is how many of the largest small bodies are parsed at once.
	together = 16
	// restTakes is how long the server reads on after the error of a body, so that its client gets the error.
	restTakes = time.Second
	// leastBody is what a request counts at least, for the memory that it takes besides its body.
	leastBody = 4 << 10
)

// intake bounds the memory that requests take until the generator has their tokens. The bodies that are received, and that wait to be
// parsed, have a number of bytes together. The body that has been arriving for the longest time gives way to others, so that clients
// which hold back the end of a request do not keep out those which send theirs. Parsing and encoding take many times the
// bytes of a body: one of the longest bodies is parsed at a time, and small ones next to it.
type intake struct {
	longest      int64 // bytes of a body
	most         int64 // bytes of all bodies
	queue        int   // requests that may be parsed, or wait for it; 0 is any number
	receive      time.Duration
	small, large *semaphore.Weighted // bytes of bodies that are parsed

	mu       sync.Mutex
	held     int64
	arriving []*arrival // the oldest first
	parsing  int
}

// arrival is a body that is received.
type arrival struct {
	size      int64 // that it counts
	evicted   bool
	interrupt func() // ends a read
}

func newIntake(c Config, o generate.Stats) *intake {
	in := &intake{longest: c.Body, most: bodies * max(c.Body, smallBody), receive: c.Receive,
		small: semaphore.NewWeighted(together * smallBody), large: semaphore.NewWeighted(max(c.Body, 1))}
	if o.Queue > 0 {
		in.queue = o.Queue + o.Sequences
	}
	return in
}

// read receives the body of a request and calls parse with it when it is its turn. The text is gone when parse returns. Errors are
// those of parse, problems with the request, generate.ErrBusy if too many bodies are held or wait, and the cause of the context's end.
func (in *intake) read(ctx context.Context, w http.ResponseWriter, r *http.Request, parse func(text []byte) error) error {
	control := http.NewResponseController(w)
	a := &arrival{interrupt: func() { _ = control.SetReadDeadline(time.Unix(1, 0)) }}
	defer in.release(a)
	_ = control.SetReadDeadline(time.Now().Add(in.receive)) // a connection without deadlines is one of a test
	text, err := in.body(a, w, r)
	if err != nil {
		_ = control.SetReadDeadline(time.Now().Add(restTakes)) // net/http reads the rest of the body, or some of it
		return err
	}
	_ = control.SetReadDeadline(time.Time{}) // the client may now wait for as long as the answer takes
	end, err := in.turn(ctx, int64(len(text)))
	if err != nil {
		return err
	}
	defer end()
	return parse(text)
}

// body receives a body.
func (in *intake) body(a *arrival, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	long := &problem{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the request is longer than %d bytes", in.longest)}
	if r.ContentLength > in.longest {
		return nil, long
	}
	most := in.longest
	if r.ContentLength >= 0 {
		most = r.ContentLength
	}
	if !in.begin(a) {
		return nil, crowded()
	}
	from := http.MaxBytesReader(w, r.Body, in.longest)
	text := make([]byte, 0, min(most, leastBody)+1)
	for {
		if len(text) == cap(text) {
			bigger := min(2*int64(cap(text)), most+1) // one more than the body, so that the last read says that it ends
			if !in.reserve(a, bigger-int64(cap(text))) {
				return nil, crowded()
			}
			text = append(make([]byte, 0, bigger), text...)
		}
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if err == nil {
			continue
		}
		evicted := in.arrived(a)
		var tooLong *http.MaxBytesError
		switch {
		case evicted:
			return nil, crowded()
		case err == io.EOF:
			return text, nil
		case errors.As(err, &tooLong):
			return nil, long
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, &problem{Status: http.StatusRequestTimeout, Message: fmt.Sprintf("the request did not come within %v", in.receive)}
		}
		return nil, wrong("", "the request is no complete JSON object")
	}
}

// crowded is the problem of a body that others leave no memory for.
func crowded() *problem {
	return &problem{Status: http.StatusTooManyRequests, Retry: "1", Close: true, Type: "rate_limit_error", Code: "rate_limit_exceeded",
		Message: "the requests that are being received take all the memory for requests; try again later"}
}

// begin counts a body that begins to arrive.
func (in *intake) begin(a *arrival) bool {
	in.mu.Lock()
	in.arriving = append(in.arriving, a)
	in.mu.Unlock()
	return in.reserve(a, leastBody)
}

// reserve counts further bytes of a body. If there are too many, the oldest bodies that arrive give way. It reports false if the
// body itself had to, or if bodies that wait to be parsed leave too little.
func (in *intake) reserve(a *arrival, n int64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for !a.evicted && in.held+n > in.most && len(in.arriving) > 0 {
		in.evict(in.arriving[0])
	}
	if a.evicted || in.held+n > in.most {
		return false
	}
	in.held += n
	a.size += n
	return true
}

// evict has a body give way. The caller holds in.mu.
func (in *intake) evict(a *arrival) {
	in.held -= a.size
	a.size, a.evicted = 0, true
	in.forget(a)
	a.interrupt()
}

// forget takes a body from those that arrive. The caller holds in.mu.
func (in *intake) forget(a *arrival) {
	in.arriving = slices.DeleteFunc(in.arriving, func(b *arrival) bool { return a == b })
}

// arrived ends the arrival of a body. It reports whether the body had to give way before.
func (in *intake) arrived(a *arrival) (evicted bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.forget(a)
	return a.evicted
}

// release ends the count of a body.
func (in *intake) release(a *arrival) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.forget(a)
	in.held -= a.size
	a.size = 0
}

// turn waits until a body of n bytes may be parsed, and returns what ends that.
func (in *intake) turn(ctx context.Context, n int64) (end func(), err error) {
	in.mu.Lock()
	if in.queue > 0 && in.parsing >= in.queue {
		in.mu.Unlock()
		return nil, generate.ErrBusy
	}
	in.parsing++
	in.mu.Unlock()
	lane := in.small
	if n > smallBody {
		lane = in.large
	}
	leave := func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.parsing--
	}
	if lane.Acquire(ctx, n) != nil {
		leave()
		return nil, context.Cause(ctx)
	}
	return func() {
		lane.Release(n)
		leave()
	}, nil
}

// leastText is how many bytes of text are encoded in any case, so that the error of a text that is too long says how many tokens it has.
const leastText = 64 << 10

// longestText returns the most bytes that a text may have whose tokens have a place each. It is a bound: a token of a text has
// fewer bytes than the longest one.
func longestText(positions int, t *tokenizer.Tokenizer) int {
	longest := 1
	for id := range t.Size() {
		text, _ := t.Text(int32(id))
		longest = max(longest, len(text))
	}
	return max(leastText, positions*longest)
}

// read calls parse with the body of a request; see intake.read.
func (s *Server) read(w http.ResponseWriter, r *http.Request, parse func(text []byte) error) error {
	ctx, cancel := s.until(r.Context())
	defer cancel(nil)
	return s.intake.read(ctx, w, r, parse)
}

// encode returns the tokens of a text. A text that is too long for the room whatever its tokens are is refused before it is encoded.
func (s *Server) encode(field, text string, o tokenizer.Options) ([]int32, error) {
	if len(text) > s.text {
		return nil, &problem{Status: http.StatusBadRequest, Param: field, Code: "context_length_exceeded", Message: fmt.Sprintf(
			"a text of %d bytes, and with room for %d positions want at most %d bytes", len(text), s.g.Room(), s.text)}
	}
	ids, err := s.c.Tokenizer.Encode(text, o)
	if err != nil {
		return nil, wrong(field, err.Error())
	}
	return ids, nil
}

// room returns an error if a prompt has more tokens than there is room for.
func (s *Server) room(ids []int32, r generate.Request) error {
	if !r.Slide && len(ids) > s.g.Room() || len(ids) > s.text {
		return &generate.RoomError{Prompt: len(ids), N: r.N, Room: s.g.Room()}
	}
	return nil
}

// places returns an error if a request asks for more texts than may be generated or wait, and so could never have its turn.
func (s *Server) places(texts int) error {
	if most := s.intake.queue; most > 0 && texts > most {
		return wrong("n", fmt.Sprintf("%d texts in one request, want at most %d, as many as this server generates or lets wait; send several requests", texts, most))
	}
	return nil
}
