package generate

import (
	"errors"
	"fmt"
	"time"
)

// Request is a text to continue.
type Request struct {
	Prompt []int32
	// N is how many tokens are generated at most. 0 means as many as there is room for.
	N int
	Sampling
	// Top is how many of the most likely tokens each Token lists.
	Top int
	// Logits gives each Token the logits that it was chosen from.
	Logits bool
	// Scores has the tokens of the prompt come before those generated, with the logarithms of their probabilities.
	// The prompt is computed anew, whatever caches hold.
	Scores bool
	// Ends are tokens that end the text. They are not part of it.
	Ends map[int32]bool
	// Stops are texts that end the text where they begin. They want Options.Tokenizer.
	Stops []string
	// Slide makes room where the caches are full: half of the tokens behind the first Keep are dropped, the
	// oldest ones, and what follows them is computed anew as if they had never been there. Without Slide a
	// request that needs more room than there is is an error.
	Slide bool
	Keep  int
}

// Token is a token that was generated, or one of the prompt if Request.Scores asks for them.
type Token struct {
	ID      int32
	Prompt  bool    // it is one of the prompt; it has no Text and no Logits
	LogProb float64 // the logarithm of its probability, as the model has it; NaN for the first token of a prompt
	Top     []Alternative
	Logits  []float32 // of all tokens, as the model has them; nil without Request.Logits
	// Text is what is certain of the text after this token and was not after the one before. What may be the
	// beginning of one of Request.Stops, or of a character, is held back. "" without Options.Tokenizer.
	Text string
}

// Alternative is a token that could have been generated, with the logarithm of its probability.
type Alternative struct {
	ID      int32
	LogProb float64
}

// Finish says why a text ended.
type Finish string

const (
	Stopped Finish = "stop"   // by a token of Request.Ends, a text of Request.Stops, or the caller
	Length  Finish = "length" // there are Request.N tokens, or there is no more room
)

// Result says how a request went.
type Result struct {
	Finish Finish
	Rest   string // text that was held back until the end; it follows that of the tokens
	// Prompt is the number of tokens of the prompt, of which Reused were in caches already, and Tokens the
	// number of tokens generated.
	Prompt, Reused, Tokens int
	// Wait is how long the request waited for a place, First how long its first token took from there on, and
	// Others how long all further tokens took.
	Wait, First, Others time.Duration
}

// MaxTop is how many alternatives a request may ask for.
const MaxTop = 20

// ErrBusy is the error of a request for which there is no place in the queue.
var ErrBusy = errors.New("generate: the queue is full; try again later")

// ErrClosed is the error of requests that Close has ended.
var ErrClosed = errors.New("generate: the generator is closed")

// RequestError is the error of a request that makes no sense for the model and its room.
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

// RoomError says that a prompt and the tokens that are to follow it need more room than there is.
type RoomError struct{ Prompt, N, Room int }

func (e *RoomError) Error() string {
	if e.Prompt > e.Room {
		return fmt.Sprintf("generate: a prompt of %d tokens, and there is room for %d positions; shorten it, or open the model with more room", e.Prompt, e.Room)
	}
	return fmt.Sprintf("generate: a prompt of %d tokens and %d more need room for %d positions, and there is room for %d; generate at most %d, or open the model with more room",
		e.Prompt, e.N, e.Prompt+e.N-1, e.Room, e.Room-e.Prompt+1)
}
