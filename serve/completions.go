package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/tokenizer"
)

// completion is a request to continue texts.
type completion struct {
	params
	Prompt   json.RawMessage `json:"prompt"`
	Echo     bool            `json:"echo"`
	LogProbs *int            `json:"logprobs"`
	BestOf   *int            `json:"best_of"`

	Suffix        any `json:"suffix" default:"\"\""`
	SpecialTokens any `json:"add_special_tokens" default:"true"`
}

// usualTokens is the default number of tokens of a completion.
const usualTokens = 16

// completions answers POST /v1/completions.
func (s *Server) completions(out *reply, r *http.Request) error {
	var p params
	var n int
	var requests []generate.Request
	style := &textStyle{object: object{ID: newID("cmpl"), Kind: "text_completion", Created: now(), Model: s.c.Name}, tok: s.c.Tokenizer}
	err := s.read(out.w, r, func(text []byte) (err error) {
		var q completion
		if err := parse(text, &q); err != nil {
			return err
		}
		requests, n, err = s.complete(&q, style)
		p = q.params
		return err
	})
	if err != nil {
		return err
	}
	return s.answer(out, r, &p, requests, n, style)
}

// complete returns the generation requests for a completion request; each n consecutive ones share a prompt.
func (s *Server) complete(q *completion, style *textStyle) (requests []generate.Request, n int, err error) {
	if q.Echo && q.MaxTokens != nil && *q.MaxTokens == 0 {
		q.only, *q.MaxTokens = true, 1
	}
	request, n, err := q.request(s)
	if err != nil {
		return nil, 0, err
	}
	if q.MaxTokens == nil {
		request.N = usualTokens
	}
	if q.BestOf != nil && *q.BestOf != n {
		return nil, 0, wrong("best_of", "all answers are returned; leave out best_of")
	}
	if style.logprobs = q.LogProbs != nil; style.logprobs {
		request.Top, request.Scores = *q.LogProbs, q.Echo
	}
	prompts, err := s.prompts(q.Prompt, n, request)
	if err != nil {
		return nil, 0, err
	}
	for _, p := range prompts {
		for i := range n {
			one := request
			one.Prompt, one.Seed = p.ids, request.Seed+uint64(i)
			requests = append(requests, one)
			st := textStart{}
			if q.Echo {
				if st.echo = p.text; st.echo == "" {
					st.echo = s.c.Tokenizer.Decode(p.ids)
				}
			}
			if style.logprobs {
				st.prompt = offsets{tok: s.c.Tokenizer, stream: s.c.Tokenizer.Stream(), echo: []rune(st.echo)}
				st.answer = offsets{tok: s.c.Tokenizer, stream: s.c.Tokenizer.Continue(p.ids), before: len(st.prompt.echo)}
			}
			style.starts = append(style.starts, st)
		}
	}
	return requests, n, nil
}

// maxPrompts is the maximum number of prompts in a request.
const maxPrompts = 64

// prompt is a text given by the client, or "" if it gave tokens, and its tokens.
type prompt struct {
	text string
	ids  []int32
}

// prompts parses a text, a list of texts, a list of tokens or a list of such lists. n is the number of answers per
// prompt.
func (s *Server) prompts(data json.RawMessage, n int, request generate.Request) ([]prompt, error) {
	var ids []int32
	if strictjson.UnmarshalOnce(data, &ids) == nil && len(ids) > 0 {
		return []prompt{{ids: ids}}, errors.Join(s.places(n), s.room(ids, request))
	}
	all, err := list(data, maxPrompts)
	if err != nil {
		return nil, err
	}
	if err := s.places(len(all) * n); err != nil {
		return nil, err
	}
	var out []prompt
	for _, one := range all {
		var text string
		var ids []int32
		if string(one) == "null" || strictjson.UnmarshalOnce(one, &text) != nil && strictjson.UnmarshalOnce(one, &ids) != nil {
			return nil, wrong("prompt", "the prompt is neither a text nor a list of tokens, nor a list of either")
		}
		if ids == nil {
			if ids, err = s.encode("prompt", text, tokenizer.Options{}); err != nil {
				return nil, err
			}
		}
		if err := s.room(ids, request); err != nil {
			return nil, err
		}
		out = append(out, prompt{text, ids})
	}
	return out, nil
}

// list returns the elements of a list of at most most elements, or data itself if it is not a list.
func list(data json.RawMessage, most int) ([]json.RawMessage, error) {
	var all []json.RawMessage
	if len(data) == 0 || string(data) == "null" {
		return nil, wrong("prompt", fmt.Sprintf("0 prompts, want 1 to %d", most))
	}
	if data[0] != '[' {
		return []json.RawMessage{data}, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		if len(all) == most {
			return nil, wrong("prompt", fmt.Sprintf("more than %d prompts, want 1 to %d", most, most))
		}
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, wrong("prompt", fmt.Sprintf("0 prompts, want 1 to %d", most))
	}
	return all, nil
}

// textStyle formats completions of texts.
type textStyle struct {
	object
	tok      *tokenizer.Tokenizer
	logprobs bool
	starts   []textStart // by answer
}

// textStart is the text preceding an answer, with token offsets in both.
type textStart struct {
	echo           string
	prompt, answer offsets
}

type textChoice struct {
	Index    int           `json:"index"`
	Text     string        `json:"text"`
	LogProbs *textLogProbs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
}

type textLogProbs struct {
	Tokens  []string             `json:"tokens"`
	Values  []*float64           `json:"token_logprobs"`
	Top     []map[string]float64 `json:"top_logprobs"`
	Offsets []int                `json:"text_offset"`
}

func (st *textStyle) choice(i int, a *part) any {
	c := textChoice{Index: i, Text: a.text, Finish: a.finish}
	if a.first {
		c.Text = st.starts[i].echo + c.Text
	}
	if st.logprobs && (a.first || len(a.tokens) > 0) {
		c.LogProbs = &textLogProbs{Tokens: []string{}, Values: []*float64{}, Top: []map[string]float64{}, Offsets: []int{}}
		for _, t := range a.tokens {
			l, begins := c.LogProbs, &st.starts[i].answer
			if t.Prompt {
				begins = &st.starts[i].prompt
			}
			l.Tokens, l.Offsets = append(l.Tokens, tokenText(st.tok, t.ID)), append(l.Offsets, begins.next(t.ID))
			if math.IsNaN(t.LogProb) { // no token precedes the first one of a prompt
				l.Values, l.Top = append(l.Values, nil), append(l.Top, nil)
			} else {
				l.Values, l.Top = append(l.Values, &t.LogProb), append(l.Top, st.top(t))
			}
		}
	}
	return c
}

// top returns a token and its alternatives by their texts. If several share a text, only one is listed under it,
// preferably the token itself; the others are token_id:N.
func (st *textStyle) top(t generate.Token) map[string]float64 {
	all := map[string]float64{tokenText(st.tok, t.ID): t.LogProb}
	for _, x := range t.Top {
		text := tokenText(st.tok, x.ID)
		if _, taken := all[text]; taken && x.ID != t.ID {
			text = fmt.Sprintf("token_id:%d", x.ID)
		}
		all[text] = x.LogProb
	}
	return all
}

func (st *textStyle) whole(i int, a *part) any { return st.choice(i, a) }

func (st *textStyle) head(chunk bool) object { return st.object }

func (st *textStyle) begin(int) any { return nil }
