package serve

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gomoe/gomoe/generate"
)

// object holds the members common to all answers.
type object struct {
	ID      string `json:"id"`
	Kind    string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

// body is an answer, or an event of one.
type body struct {
	object
	Choices []any  `json:"choices"`
	Usage   *usage `json:"usage,omitempty"`
}

// usage counts tokens.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// part is an answer, or a part of one.
type part struct {
	first  bool // no part came before
	text   string
	length int // bytes of the text so far, including the parts sent
	tokens []generate.Token
	count  int     // generated tokens so far, including those sent
	finish *string // reason for the end of the text; nil if it continues
}

func (a *part) add(text string) { a.text, a.length = a.text+text, a.length+len(text) }

// certain returns the tokens that begin before the end of the text so far, and the others, which may be part of a stop
// text.
func (a *part) certain() (tokens, others []generate.Token) {
	for i, t := range a.tokens {
		if !t.Prompt && t.Begin >= a.length {
			return a.tokens[:i], a.tokens[i:]
		}
	}
	return a.tokens, nil
}

// style formats the answers of an endpoint.
type style interface {
	head(chunk bool) object
	begin(i int) any           // choice of the event beginning a stream; nil for none
	choice(i int, a *part) any // choice of a further event
	whole(i int, a *part) any  // choice of an answer that is not streamed
}

func newID(kind string) string { return kind + "-" + strings.ReplaceAll(uuid.NewString(), "-", "") }

func now() int64 { return time.Now().Unix() }

// answer runs all requests concurrently and writes the answer. Each n consecutive requests share a prompt.
func (s *Server) answer(out *reply, r *http.Request, p *params, requests []generate.Request, n int, st style) error {
	ctx, cancel := s.until(r.Context())
	defer cancel(nil)
	var mu sync.Mutex // guards out and all variables below
	parts := make([]*part, len(requests))
	results := make([]generate.Result, len(requests))
	var wait sync.WaitGroup
	for i, q := range requests {
		parts[i] = &part{first: true}
		wait.Go(func() {
			result, err := s.g.Generate(ctx, q, func(t generate.Token) bool {
				mu.Lock()
				defer mu.Unlock()
				if p.only && !t.Prompt {
					return true
				}
				a := parts[i]
				a.add(t.Text)
				if a.tokens = append(a.tokens, t); !t.Prompt {
					a.count++
				}
				if !p.Stream {
					return true
				}
				if err := s.send(out, st, i, a); err != nil {
					cancel(err)
					return false
				}
				return true
			})
			if err != nil {
				cancel(err) // keeps the first error
				return
			}
			if ctx.Err() != nil {
				return
			}
			s.metrics.generated(result)
			mu.Lock()
			defer mu.Unlock()
			if p.only {
				result.Finish, result.Rest, result.Tokens = generate.Length, "", 0
			}
			why, a := string(result.Finish), parts[i]
			a.add(result.Rest)
			if a.finish = &why; result.Finish == generate.Stopped && result.Tokens == a.count { // by a stop text: a token ending the text is not among the tokens
				a.tokens, _ = a.certain()
			}
			results[i] = result
			if p.Stream {
				if err := s.send(out, st, i, parts[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	wait.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	used := usage{}
	for i, r := range results {
		used.Completion += r.Tokens
		if i%n == 0 { // a prompt counts once; the first answer computed fills the caches for the others
			used.Prompt += r.Prompt
			used.Details.Cached += slices.MinFunc(results[i:i+n], func(a, b generate.Result) int { return a.Reused - b.Reused }).Reused
		}
	}
	used.Total = used.Prompt + used.Completion
	if p.Stream {
		if p.StreamOptions != nil && p.StreamOptions.Usage {
			if err := out.event(body{object: st.head(true), Choices: []any{}, Usage: &used}); err != nil {
				return err
			}
		}
		return out.line("[DONE]")
	}
	whole := body{object: st.head(false), Usage: &used}
	for i, a := range parts {
		whole.Choices = append(whole.Choices, st.whole(i, a))
	}
	out.object(whole)
	return nil
}

// send sends the new part of an answer as an event. A token with its text held back is sent with the next one.
func (s *Server) send(out *reply, st style, i int, a *part) error {
	if a.text == "" && a.finish == nil {
		return nil
	}
	if begin := st.begin(i); a.first && begin != nil {
		if err := out.event(body{object: st.head(true), Choices: []any{begin}}); err != nil {
			return err
		}
	}
	var held []generate.Token
	if a.finish == nil {
		a.tokens, held = a.certain()
	}
	err := out.event(body{object: st.head(true), Choices: []any{st.choice(i, a)}})
	a.first, a.text, a.tokens = false, "", held
	return err
}
