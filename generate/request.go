package generate

import (
	"errors"
	"fmt"
	"time"
)

// Request configures the continuation of a text.
type Request struct {
	Prompt []int32
	// N is the maximum number of tokens to generate; 0 means up to the capacity of the caches.
	N int
	Sampling
	// Top is the number of most likely tokens to list in each Token.
	Top int
	// Logits returns the logits with each Token.
	Logits bool
	// Scores returns the tokens of the prompt before the generated ones, with their log probabilities. The prompt is
	// then recomputed, regardless of caches.
	Scores bool
	// Ends are tokens ending the text. They are not part of it.
	Ends map[int32]bool
	// Stops are texts ending the text where they begin. They require Options.Tokenizer.
	Stops []string
	// Slide drops old tokens when the caches are full: of the tokens following the first Keep, it drops the older
	// half, and recomputes the rest as if they had never been there. Without Slide, a request exceeding the capacity
	// is an error.
	Slide bool
	Keep  int
}

// Token is a generated token, or with Request.Scores a token of the prompt.
type Token struct {
	ID      int32
	Prompt  bool    // a token of the prompt, without Text and Logits
	LogProb float64 // log probability according to the model; NaN for the first token of a prompt
	Top     []Alternative
	Logits  []float32 // the model's logits; nil without Request.Logits
	// Text is the text made certain by this token. Text that may be the beginning of one of Request.Stops, or of a
	// character, is held back. It is "" without Options.Tokenizer.
	Text string
	// Begin is the number of bytes of generated text before the token, including text that is held back.
	Begin int
}

// Alternative is a possible token, with its log probability.
type Alternative struct {
	ID      int32
	LogProb float64
}

// Finish is the reason for the end of a text.
type Finish string

const (
	Stopped Finish = "stop"   // a token of Request.Ends, a text of Request.Stops, or the caller
	Length  Finish = "length" // Request.N tokens were generated, or the caches are full
)

// Result describes the outcome of a request.
type Result struct {
	Finish Finish
	Rest   string // text held back until the end, following the text of the tokens
	// Prompt is the number of prompt tokens, Reused the number of these found in caches, and Tokens the number of
	// generated tokens.
	Prompt, Reused, Tokens int
	// Wait is the time spent waiting for a slot, First the time from then to the first token, and Others the time for
	// all further tokens.
	Wait, First, Others time.Duration
}

// MaxTop is the maximum number of alternatives in a request.
const MaxTop = 20

// ErrBusy reports that the queue is full.
var ErrBusy = errors.New("generate: the queue is full; try again later")

// ErrClosed reports that Close has ended a request.
var ErrClosed = errors.New("generate: the generator is closed")

// RequestError reports a request that is invalid for the model or exceeds the capacity.
type RequestError struct{ Err error }

func (e *RequestError) Error() string { return e.Err.Error() }

func (e *RequestError) Unwrap() error { return e.Err }

// check returns an error for a request that cannot be served.
func (g *Generator) check(r Request) error {
	if err := r.Sampling.Check(); err != nil {
		return err
	}
	room := g.o.Room
	switch {
	case len(r.Prompt) == 0:
		return errors.New("generate: an empty prompt, want at least one token")
	case r.N < 0:
		return fmt.Errorf("generate: %d tokens to generate, want at least 1, or 0 for as many as there is room for", r.N)
	case r.Top < 0 || r.Top > MaxTop:
		return fmt.Errorf("generate: the %d most likely tokens, want 0 to %d", r.Top, MaxTop)
	case len(r.Stops) > 0 && g.o.Tokenizer == nil:
		return errors.New("generate: texts at which to stop, and no tokenizer; set Options.Tokenizer")
	case r.Slide && r.Scores:
		return errors.New("generate: the probabilities of a prompt's tokens, and a text that slides: want one of both")
	case r.Slide && r.N == 0:
		return errors.New("generate: a text that slides has always room; say how many tokens to generate")
	case r.Slide && (r.Keep < 0 || r.Keep > room-2):
		return fmt.Errorf("generate: %d first tokens are to be kept, want 0 to %d, as there is room for %d positions", r.Keep, room-2, room)
	case r.Slide:
	case r.Keep != 0:
		return fmt.Errorf("generate: %d first tokens are to be kept, which is for texts that slide", r.Keep)
	case len(r.Prompt) > room:
		return &RoomError{Prompt: len(r.Prompt), N: r.N, Room: room}
	case r.N > room || len(r.Prompt)+r.N-1 > room:
		return &RoomError{Prompt: len(r.Prompt), N: r.N, Room: room}
	}
	for i, id := range r.Prompt {
		if id < 0 || int(id) >= g.model.Vocab {
			return fmt.Errorf("generate: token %d of the prompt is %d, want one of 0 to %d", i, id, g.model.Vocab-1)
		}
	}
	for id := range r.Bias {
		if id < 0 || int(id) >= g.model.Vocab {
			return fmt.Errorf("generate: token %d has a bias, want one of 0 to %d", id, g.model.Vocab-1)
		}
	}
	for _, s := range r.Stops {
		if s == "" {
			return errors.New("generate: an empty text at which to stop, want at least one character")
		}
	}
	return nil
}

// RoomError reports that a prompt and the tokens to generate exceed the capacity of the caches.
type RoomError struct{ Prompt, N, Room int }

func (e *RoomError) Error() string {
	if e.Prompt > e.Room {
		return fmt.Sprintf("generate: a prompt of %d tokens, and there is room for %d positions; shorten it, or open the model with more room", e.Prompt, e.Room)
	}
	return fmt.Sprintf("generate: a prompt of %d tokens and %d more need room for %d positions, and there is room for %d; generate at most %d, or open the model with more room",
		e.Prompt, e.N, e.Prompt+e.N-1, e.Room, e.Room-e.Prompt+1)
}
