package serve

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/tokenizer"
)

// completion is a request for the continuation of texts.
type completion struct {
	params
	Prompt   json.RawMessage `json:"prompt"`
	Echo     bool            `json:"echo"`
	LogProbs *int            `json:"logprobs"`
	Suffix   *string         `json:"suffix"`
	BestOf   *int            `json:"best_of"`
}

// usualTokens is how many tokens a completion has where the request does not say it.
const usualTokens = 16

// completions answers POST /v1/completions.
func (s *Server) completions(out *reply, r *http.Request) error {
	var q completion
	if err := s.read(out.w, r, &q); err != nil {
		return err
	}
	request, n, err := q.request(s)
	if err != nil {
		return err
	}
	if q.MaxTokens == nil {
		request.N = usualTokens
	}
	switch {
	case q.Suffix != nil && *q.Suffix != "":
		return wrong("suffix", "there is no suffix here")
	case q.BestOf != nil && *q.BestOf != n:
		return wrong("best_of", "all answers are returned; leave out best_of")
	case q.Echo && q.LogProbs != nil:
		return wrong("echo", "the prompt has no log probabilities; leave out echo or logprobs")
	}
	if q.LogProbs != nil {
		request.Top = *q.LogProbs
	}
	prompts, err := s.prompts(q.Prompt)
	if err != nil {
		return err
	}
	style := &textStyle{object: object{ID: newID("cmpl"), Kind: "text_completion", Created: now(), Model: s.c.Name}, tok: s.c.Tokenizer, logprobs: q.LogProbs != nil}
	var requests []generate.Request
	for _, ids := range prompts {
		for i := range n {
			one := request
			one.Prompt, one.Seed = ids, request.Seed+uint64(i)
			requests = append(requests, one)
			echo := ""
			if q.Echo {
				echo = s.c.Tokenizer.Decode(ids)
			}
			style.echo = append(style.echo, echo)
		}
	}
	return s.answer(out, r, &q.params, requests, n, style)
}

// maxPrompts is how many texts a request may have continued.
const maxPrompts = 64

// prompts returns the tokens of a text, of a list of texts, of a list of tokens, or of a list of those.
func (s *Server) prompts(data json.RawMessage) ([][]int32, error) {
	var all []json.RawMessage
	var ids []int32
	if json.Unmarshal(data, &ids) == nil && len(ids) > 0 {
		return [][]int32{ids}, nil
	}
	if json.Unmarshal(data, &all) != nil {
		all = []json.RawMessage{data}
	}
	if len(all) == 0 || len(all) > maxPrompts {
		return nil, wrong("prompt", fmt.Sprintf("%d prompts, want 1 to %d", len(all), maxPrompts))
	}
	var out [][]int32
	for _, one := range all {
		var text string
		var ids []int32
		if string(one) == "null" || json.Unmarshal(one, &text) != nil && json.Unmarshal(one, &ids) != nil {
			return nil, wrong("prompt", "the prompt is neither a text nor a list of tokens, nor a list of either")
		}
		if ids == nil {
			var err error
			if ids, err = s.c.Tokenizer.Encode(text, tokenizer.Options{}); err != nil {
				return nil, wrong("prompt", err.Error())
			}
		}
		out = append(out, ids)
	}
	return out, nil
}

// textStyle is how completions of texts are written.
type textStyle struct {
	object
	tok      *tokenizer.Tokenizer
	logprobs bool
	echo     []string // what stands before each answer
}

type textChoice struct {
	Index    int           `json:"index"`
	Text     string        `json:"text"`
	LogProbs *textLogProbs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
}

type textLogProbs struct {
	Tokens  []string             `json:"tokens"`
	Values  []float64            `json:"token_logprobs"`
	Top     []map[string]float64 `json:"top_logprobs"`
	Offsets []int                `json:"text_offset"`
}

func (st *textStyle) choice(i int, a *part) any {
	c := textChoice{Index: i, Text: a.text, Finish: a.finish}
	if a.first {
		c.Text = st.echo[i] + c.Text
	}
	if st.logprobs && (a.first || len(a.tokens) > 0) {
		c.LogProbs = &textLogProbs{Tokens: []string{}, Values: []float64{}, Top: []map[string]float64{}, Offsets: []int{}}
		at := a.offset
		for _, t := range a.tokens {
			text := st.tok.DecodeAll([]int32{t.ID})
			top := map[string]float64{}
			for _, x := range t.Top {
				top[st.tok.DecodeAll([]int32{x.ID})] = x.LogProb
			}
			c.LogProbs.Tokens, c.LogProbs.Values = append(c.LogProbs.Tokens, text), append(c.LogProbs.Values, t.LogProb)
			c.LogProbs.Top, c.LogProbs.Offsets = append(c.LogProbs.Top, top), append(c.LogProbs.Offsets, at)
			at += len([]rune(text))
		}
	}
	return c
}

func (st *textStyle) whole(i int, a *part) any { return st.choice(i, a) }

func (st *textStyle) head(chunk bool) object { return st.object }

func (st *textStyle) begin(int) any { return nil }
