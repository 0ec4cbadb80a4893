package serve

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/gomoe/gomoe/generate"
)

// params are the fields that completions of texts and of conversations have in common. Those below Ignored change
// nothing about the answer, and are taken as they come.
type params struct {
	Model         string             `json:"model"`
	MaxTokens     *int               `json:"max_tokens"`
	Temperature   *float64           `json:"temperature"`
	TopP          *float64           `json:"top_p"`
	TopK          int                `json:"top_k"`
	MinP          float64            `json:"min_p"`
	Presence      float64            `json:"presence_penalty"`
	Frequency     float64            `json:"frequency_penalty"`
	Repetition    float64            `json:"repetition_penalty"`
	LogitBias     map[string]float64 `json:"logit_bias"`
	Seed          *int64             `json:"seed"`
	Stop          texts              `json:"stop"`
	N             *int               `json:"n"`
	Stream        bool               `json:"stream"`
	StreamOptions *struct {
		Usage       bool            `json:"include_usage"`
		Obfuscation json.RawMessage `json:"include_obfuscation"`
	} `json:"stream_options"`
	Slide bool `json:"slide"` // drop the older half of the text where its room is full
	Keep  int  `json:"keep"`  // so many first tokens are not dropped

	Ignored
}

// Ignored are fields that change nothing about the answer.
type Ignored struct {
	User       json.RawMessage `json:"user"`
	Metadata   json.RawMessage `json:"metadata"`
	Store      json.RawMessage `json:"store"`
	Tier       json.RawMessage `json:"service_tier"`
	Safety     json.RawMessage `json:"safety_identifier"`
	CacheKey   json.RawMessage `json:"prompt_cache_key"`
	Parallel   json.RawMessage `json:"parallel_tool_calls"`
	Prediction json.RawMessage `json:"prediction"`
}

// texts is a text, or a list of texts.
type texts []string

func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil && string(data) != "null" {
		*t = texts{one}
		return nil
	}
	var all []string
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("want a text or a list of texts, and have %.40q", data)
	}
	*t = all
	return nil
}

const (
	maxChoices = 16 // answers that a request may ask for
	maxStops   = 16
)

// request returns what the fields ask for, without a prompt, and the number of answers to each prompt.
func (p *params) request(s *Server) (r generate.Request, n int, err error) {
	if p.Model != "" && p.Model != s.c.Name {
		return r, 0, &problem{Status: 404, Param: "model", Code: "model_not_found", Message: fmt.Sprintf("there is no model %q; there is %q", p.Model, s.c.Name)}
	}
	r = generate.Request{Ends: s.c.Ends, Stops: p.Stop, Slide: p.Slide, Keep: p.Keep, Sampling: generate.Sampling{
		Temperature: 1, TopK: p.TopK, MinP: p.MinP, Presence: p.Presence, Frequency: p.Frequency, Repetition: p.Repetition, Seed: rand.Uint64()}}
	if p.Temperature != nil {
		r.Temperature = *p.Temperature
	}
	if p.TopP != nil && *p.TopP != 1 {
		r.TopP = *p.TopP
		if r.TopP == 0 { // nothing but the most likely token
			r.TopK = 1
		}
	}
	if p.Seed != nil {
		r.Seed = uint64(*p.Seed)
	}
	if p.MaxTokens != nil {
		if r.N = *p.MaxTokens; r.N < 1 {
			return r, 0, wrong("max_tokens", fmt.Sprintf("%d tokens at most, want at least 1", r.N))
		}
	}
	n = 1
	if p.N != nil {
		n = *p.N
	}
	switch {
	case n < 1 || n > maxChoices:
		return r, 0, wrong("n", fmt.Sprintf("%d answers, want 1 to %d", n, maxChoices))
	case len(p.Stop) > maxStops:
		return r, 0, wrong("stop", fmt.Sprintf("%d texts at which to stop, want %d at most", len(p.Stop), maxStops))
	case p.StreamOptions != nil && !p.Stream:
		return r, 0, wrong("stream_options", "stream_options without stream")
	}
	for id, b := range p.LogitBias {
		i, err := strconv.ParseInt(id, 10, 32)
		if err != nil || i < 0 {
			return r, 0, wrong("logit_bias", fmt.Sprintf("token %q, want its number", id))
		}
		if r.Bias == nil {
			r.Bias = map[int32]float64{}
		}
		r.Bias[int32(i)] = b
	}
	return r, n, nil
}
