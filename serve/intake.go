package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/tokenizer"
)

const (
	// bodies is the number of bodies of maximum length that the server holds at once.
	bodies = 8
	// smallBody is the maximum length of a body parsed without waiting for larger ones. Parsing takes up to 60 times
	// its length.
	smallBody = 64 << 10
	// together is the number of maximum-length small bodies parsed at once.
	together = 16
	// restTakes is how long the server keeps reading after rejecting a body, so that its client receives the error.
	restTakes = time.Second
	// leastBody is the minimum size counted for a request, covering its memory other than the body.
	leastBody = 4 << 10
)

// intake bounds the memory of requests until the generator has their tokens. All bodies being received or waiting
// to be parsed share a budget of bytes. If it is exceeded, the body that has been arriving for the longest time is
// evicted, so that clients withholding the end of a request do not block others. Parsing and encoding take many
// times the length of a body, so only one maximum-length body is parsed at a time, concurrently with small ones.
type intake struct {
	longest      int64 // maximum length of a body
	most         int64 // budget of bytes for all bodies
	queue        int   // maximum number of requests being parsed or waiting for it; 0 means unlimited
	receive      time.Duration
	small, large *semaphore.Weighted // bytes of bodies being parsed

	mu       sync.Mutex
	held     int64
	arriving []*arrival // oldest first
	parsing  int
}

// arrival is a body being received.
type arrival struct {
	size      int64 // bytes counted
	evicted   bool
	interrupt func() // interrupts a read
}

func newIntake(c Config, o generate.Stats) *intake {
	in := &intake{longest: c.Body, most: bodies * max(c.Body, smallBody), receive: c.Receive,
		small: semaphore.NewWeighted(together * smallBody), large: semaphore.NewWeighted(max(c.Body, 1))}
	if o.Queue > 0 {
		in.queue = o.Queue + o.Sequences
	}
	return in
}

// read receives the body of a request and calls parse with it in its turn. The text is invalid after parse returns.
// It returns errors of parse, problems with the request, generate.ErrBusy if too many requests are being parsed or
// waiting, and the cause of ctx's end.
func (in *intake) read(ctx context.Context, w http.ResponseWriter, r *http.Request, parse func(text []byte) error) error {
	control := http.NewResponseController(w)
	a := &arrival{interrupt: func() { _ = control.SetReadDeadline(time.Unix(1, 0)) }}
	defer in.release(a)
	_ = control.SetReadDeadline(time.Now().Add(in.receive)) // fails only for connections in tests, which have no deadlines
	text, err := in.body(a, w, r)
	if err != nil {
		_ = control.SetReadDeadline(time.Now().Add(restTakes)) // net/http reads the rest of the body, or some of it
		return err
	}
	_ = control.SetReadDeadline(time.Time{}) // the client may now wait for the answer without limit
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
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, &problem{Status: http.StatusUnsupportedMediaType, Message: "Content-Encoding " + quoted.Text(coding) + ": want the request's JSON object as it is, without an encoding"}
	}
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
			bigger := min(2*int64(cap(text)), most+1) // one more than the body, so that the last read detects the end
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

// crowded is the problem of a body for which other bodies leave no memory.
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

// reserve counts further bytes of a body. If the budget is exceeded, it evicts the oldest arriving bodies. It
// returns false if the body itself was evicted, or if bodies waiting to be parsed leave too little.
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

// evict evicts a body. The caller holds in.mu.
func (in *intake) evict(a *arrival) {
	in.held -= a.size
	a.size, a.evicted = 0, true
	in.forget(a)
	a.interrupt()
}

// forget removes a body from the arriving ones. The caller holds in.mu.
func (in *intake) forget(a *arrival) {
	in.arriving = slices.DeleteFunc(in.arriving, func(b *arrival) bool { return a == b })
}

// arrived ends the arrival of a body. It reports whether the body was evicted.
func (in *intake) arrived(a *arrival) (evicted bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.forget(a)
	return a.evicted
}

// release returns a body's bytes to the budget.
func (in *intake) release(a *arrival) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.forget(a)
	in.held -= a.size
	a.size = 0
}

// turn waits until a body of n bytes may be parsed, and returns a function to call after parsing.
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

// leastText is the number of bytes of text encoded in any case, so that the error for a text that is too long gives
// its number of tokens.
const leastText = 64 << 10

// longestText returns an upper bound on the bytes of a text that fits into the given number of positions, based on
// the longest token.
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

// encode returns the tokens of a text. A text that cannot fit, whatever its tokens, is refused before encoding.
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

// room returns an error if a prompt exceeds the capacity of the caches.
func (s *Server) room(ids []int32, r generate.Request) error {
	if !r.Slide && len(ids) > s.g.Room() || len(ids) > s.text {
		return &generate.RoomError{Prompt: len(ids), N: r.N, Room: s.g.Room()}
	}
	return nil
}

// places returns an error if a request asks for more texts than the server generates or queues, because it could
// never run.
func (s *Server) places(texts int) error {
	if most := s.intake.queue; most > 0 && texts > most {
		return wrong("n", fmt.Sprintf("%d texts in one request, want at most %d, as many as this server generates or lets wait; send several requests", texts, most))
	}
	return nil
}
