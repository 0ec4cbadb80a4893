package generate

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gomoe/gomoe/tokenizer"
)

// sequence is a request and its progress. Fields above mu belong to the goroutine running the steps.
type sequence struct {
	Request
	ids     []int32 // of the prompt, followed by generated ones
	scored  int     // prompt tokens with known probabilities
	dropped int     // tokens dropped by sliding, following the first Keep
	slid    bool    // since the states were last checked
	slot    *slot   // nil while waiting
	stream  *tokenizer.Stream
	stops   *Stops
	speculation
	came     time.Time
	admitted time.Time

	mu     sync.Mutex
	tokens []Token // not yet taken by the caller
	result Result
	gone   bool // the caller has left
	done   bool // no more tokens will come
	err    error
	news   chan struct{} // holds an element if the caller should look
	look   func()        // wakes the loop
}

func (g *Generator) newSequence(r Request) *sequence {
	s := &sequence{Request: r, ids: slices.Clone(r.Prompt), came: time.Now(), news: make(chan struct{}, 1), look: g.look}
	s.result.Prompt = len(r.Prompt)
	if g.o.Tokenizer != nil {
		s.stream, s.stops = g.o.Tokenizer.Continue(r.Prompt), NewStops(r.Stops, g.o.Tokenizer)
	}
	s.slide(g.o.Room)
	return s
}

// slide drops tokens until the rest fits into room.
func (s *sequence) slide(room int) {
	for s.Slide && len(s.ids)-s.dropped > room {
		s.dropped += max(1, (room-s.Keep)/2)
		s.slid = true
	}
}

// window returns the tokens preceding the next one.
func (s *sequence) window() []int32 {
	if s.dropped == 0 {
		return s.ids
	}
	keep := min(s.Keep, len(s.ids)-s.dropped)
	return slices.Concat(s.ids[:keep], s.ids[keep+s.dropped:])
}

// kept returns how many tokens of the window are in the slot's states.
func (s *sequence) kept() int { return len(s.slot.seen) }

// prompt returns the length of the prompt if the window is one, and 0 if it has generated tokens.
func (s *sequence) prompt(window []int32) int {
	if s.result.Tokens > 0 {
		return 0
	}
	return len(window)
}

// scores reports whether tokens of the prompt still lack their probabilities.
func (s *sequence) scores() bool { return s.Scores && s.scored < len(s.Prompt) }

// score records the probabilities of prompt tokens, given the logits of the positions preceding them, starting with
// at.
func (s *sequence) score(logits []float32, vocab, at int) error {
	var tokens []Token
	if at == 0 {
		tokens = append(tokens, Token{ID: s.Prompt[0], Prompt: true, LogProb: math.NaN()})
	}
	for next := at + 1; len(logits) > 0 && next < len(s.Prompt); next++ {
		t, err := score(logits[:vocab], next, s.Top, func() int32 { return s.Prompt[next] })
		if err != nil {
			return err
		}
		t.Prompt = true
		tokens, logits = append(tokens, t), logits[vocab:]
	}
	s.scored += len(tokens)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = append(s.tokens, tokens...)
	s.tell()
	return nil
}

// ahead is the maximum number of tokens waiting for the caller. When it is reached, no more are computed.
const ahead = 1024

// full reports whether the caller must take tokens before more are computed.
func (s *sequence) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tokens) >= ahead
}

// ended reports whether no more tokens should be computed.
func (s *sequence) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone || s.done
}

// leave records that the caller wants no more tokens.
func (s *sequence) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.look()
}

// end ends the sequence, with an error or a result.
func (s *sequence) end(why Finish, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return
	}
	s.done, s.err, s.result.Finish = true, err, why
	s.tell()
}

// tell wakes the caller. It requires s.mu to be held.
func (s *sequence) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// take returns the tokens produced since the last call.
func (s *sequence) take() (tokens []Token, r Result, done bool, err error) {
	defer s.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	tokens, s.tokens = s.tokens, nil
	return tokens, s.result, s.done, s.err
}

// next samples the next token from its logits, and ends the sequence if it is the last.
func (s *sequence) next(logits []float32, room int) {
	t, err := s.Choose(logits, s.ids, s.Top)
	if err != nil {
		s.end("", err)
		return
	}
	if s.Logits {
		t.Logits = slices.Clone(logits)
	}
	end := func(why Finish) {
		s.done, s.result.Finish = true, why
		if s.stream != nil {
			text, stopped := s.stops.Push(s.stream.Flush())
			if s.result.Rest = text + s.stops.Rest(); stopped {
				s.result.Finish = Stopped
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.result.Tokens == 0 {
		s.result.First = time.Since(s.admitted)
	} else {
		s.result.Others = time.Since(s.admitted) - s.result.First
	}
	s.result.Tokens++
	defer s.tell()
	if s.Ends[t.ID] {
		end(Stopped)
		return
	}
	s.ids = append(s.ids, t.ID)
	if s.stream != nil {
		var stopped bool
		t.Begin = s.stops.seen
		if t.Text, stopped = s.stops.Token(t.ID, s.stream); stopped {
			s.tokens, s.done, s.result.Finish = append(s.tokens, t), true, Stopped
			return
		}
	}
	s.tokens = append(s.tokens, t)
	s.slide(room)
	if s.N > 0 && s.result.Tokens >= s.N || len(s.ids)-s.dropped > room {
		end(Length)
	}
}
