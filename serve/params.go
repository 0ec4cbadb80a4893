package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

// params holds the fields common to completions of texts and of conversations. Fields in Ignored do not affect the
// answer, and are accepted with any value.
type params struct {
	Model         string              `json:"model"`
	MaxTokens     *int                `json:"max_tokens"`
	Temperature   *float64            `json:"temperature"`
	TopP          *float64            `json:"top_p"`
	TopK          int                 `json:"top_k"`
	MinP          float64             `json:"min_p"`
	Presence      float64             `json:"presence_penalty"`
	Frequency     float64             `json:"frequency_penalty"`
	Repetition    float64             `json:"repetition_penalty"`
	LogitBias     map[string]*float64 `json:"logit_bias"`
	Seed          *int64              `json:"seed"`
	Stop          texts               `json:"stop"`
	N             *int                `json:"n"`
	Stream        bool                `json:"stream"`
	StreamOptions *struct {
		Usage       bool    `json:"include_usage"`
		Obfuscation ignored `json:"include_obfuscation"`
	} `json:"stream_options"`
	Slide bool `json:"slide"` // drop the older half of the text when its capacity is exceeded
	Keep  int  `json:"keep"`  // number of first tokens never dropped

	Ignored
	Idle

	only bool // the answer is the prompt alone, leaving out the generated token
}

// Ignored holds the fields that do not affect the answer.
type Ignored struct {
	User       ignored `json:"user"`
	Metadata   ignored `json:"metadata"`
	Store      ignored `json:"store"`
	Tier       ignored `json:"service_tier"`
	Safety     ignored `json:"safety_identifier"`
	CacheKey   ignored `json:"prompt_cache_key"`
	Retention  ignored `json:"prompt_cache_retention"`
	CacheSalt  ignored `json:"cache_salt"`
	Parallel   ignored `json:"parallel_tool_calls"`
	Prediction ignored `json:"prediction"`
}

// Idle holds the fields of other servers and of older interfaces that clients send with the value of the tag, which
// changes nothing, or with null. Other values are errors.
type Idle struct {
	// OpenAI
	Modalities   json.RawMessage `json:"modalities" idle:"[\"text\"]"`
	Audio        json.RawMessage `json:"audio" idle:"null"`
	Verbosity    json.RawMessage `json:"verbosity" idle:"\"medium\""`
	WebSearch    json.RawMessage `json:"web_search_options" idle:"null"`
	Functions    json.RawMessage `json:"functions" idle:"[]"`
	FunctionCall json.RawMessage `json:"function_call" idle:"\"none\""`
	// vLLM and SGLang
	StopTokens     json.RawMessage `json:"stop_token_ids" idle:"[]"`
	IncludeStop    json.RawMessage `json:"include_stop_str_in_output" idle:"false"`
	NoStopTrim     json.RawMessage `json:"no_stop_trim" idle:"false"`
	IgnoreEnd      json.RawMessage `json:"ignore_eos" idle:"false"`
	MinTokens      json.RawMessage `json:"min_tokens" idle:"0"`
	SkipSpecial    json.RawMessage `json:"skip_special_tokens" idle:"true"`
	Reasoning      json.RawMessage `json:"include_reasoning" idle:"true"`
	SpaceSpecial   json.RawMessage `json:"spaces_between_special_tokens" idle:"true"`
	LengthPenalty  json.RawMessage `json:"length_penalty" idle:"1"`
	EarlyStopping  json.RawMessage `json:"early_stopping" idle:"false"`
	BeamSearch     json.RawMessage `json:"use_beam_search" idle:"false"`
	BadWords       json.RawMessage `json:"bad_words" idle:"[]"`
	AllowedTokens  json.RawMessage `json:"allowed_token_ids" idle:"null"`
	Truncate       json.RawMessage `json:"truncate_prompt_tokens" idle:"null"`
	PromptLogProbs json.RawMessage `json:"prompt_logprobs" idle:"null"`
	TokensAsIDs    json.RawMessage `json:"return_tokens_as_token_ids" idle:"false"`
	TokenIDs       json.RawMessage `json:"return_token_ids" idle:"false"`
	GenerationTurn json.RawMessage `json:"add_generation_prompt" idle:"true"`
	ContinueFinal  json.RawMessage `json:"continue_final_message" idle:"false"`
	Documents      json.RawMessage `json:"documents" idle:"[]"`
	ChatTemplate   json.RawMessage `json:"chat_template" idle:"null"`
	Structured     json.RawMessage `json:"structured_outputs" idle:"null"`
	GuidedJSON     json.RawMessage `json:"guided_json" idle:"null"`
	GuidedRegex    json.RawMessage `json:"guided_regex" idle:"null"`
	GuidedChoice   json.RawMessage `json:"guided_choice" idle:"null"`
	GuidedGrammar  json.RawMessage `json:"guided_grammar" idle:"null"`
	Regex          json.RawMessage `json:"regex" idle:"null"`
	Grammar        json.RawMessage `json:"ebnf" idle:"null"`
	Priority       json.RawMessage `json:"priority" idle:"0"`
	Typical        json.RawMessage `json:"typical_p" idle:"1"`
}

// ignored is a discarded value.
type ignored bool

func (*ignored) UnmarshalJSON([]byte) error { return nil }

// texts is a text, or a list of texts.
type texts []string

func (t *texts) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*t = nil
		return nil
	}
	*t = make(texts, 1)
	if strictjson.UnmarshalOnce(data, &(*t)[0]) != nil && strictjson.UnmarshalOnce(data, (*[]string)(t)) != nil {
		return fmt.Errorf("want a text or a list of texts, and have %s", quoted.Text(data))
	}
	return nil
}

const (
	maxChoices = 16 // maximum number of answers per request
	maxStops   = 16
)

// request converts the fields to a generation request without a prompt, and returns the number of answers per
// prompt.
func (p *params) request(s *Server) (r generate.Request, n int, err error) {
	if p.Model != "" && p.Model != s.c.Name {
		return r, 0, &problem{Status: 404, Param: "model", Code: "model_not_found", Message: fmt.Sprintf("there is no model %s; there is %s", quoted.Text(p.Model), quoted.Name(s.c.Name))}
	}
	r = generate.Request{Ends: s.c.Ends, Stops: p.Stop, Slide: p.Slide, Keep: p.Keep, Sampling: generate.Sampling{
		Temperature: 1, TopK: p.TopK, MinP: p.MinP, Presence: p.Presence, Frequency: p.Frequency, Repetition: p.Repetition, Seed: rand.Uint64()}}
	if p.Temperature != nil {
		r.Temperature = *p.Temperature
	}
	if r.TopK == -1 { // other servers' number for all tokens
		r.TopK = 0
	}
	if p.TopP != nil && *p.TopP != 1 {
		r.TopP = *p.TopP
		if r.TopP == 0 { // only the most likely token
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
	if p.Slide && r.N > s.c.Tokens {
		return r, 0, wrong("max_tokens", fmt.Sprintf("%d tokens at most, want at most %d, as many as this server generates for a text that slides", r.N, s.c.Tokens))
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
	for i, stop := range p.Stop {
		if len(stop) > s.text {
			return r, 0, wrong("stop", fmt.Sprintf("text %d at which to stop has %d bytes, want %d at most: no text is longer", i, len(stop), s.text))
		}
	}
	if size := s.c.Tokenizer.Size(); len(p.LogitBias) > size {
		return r, 0, wrong("logit_bias", fmt.Sprintf("%d tokens with a bias, and there are %d tokens", len(p.LogitBias), size))
	}
	for _, id := range slices.Sorted(maps.Keys(p.LogitBias)) {
		b := p.LogitBias[id]
		i, err := strconv.ParseInt(id, 10, 32)
		if err != nil || i < 0 || strconv.FormatInt(i, 10) != id { // otherwise a token spelled in two ways would be there twice
			return r, 0, wrong("logit_bias", fmt.Sprintf("token %s, want its number, such as \"65\"", quoted.Text(id)))
		}
		if b == nil {
			return r, 0, wrong("logit_bias", fmt.Sprintf("token %s: null, want a number", id))
		}
		if r.Bias == nil {
			r.Bias = map[int32]float64{}
		}
		r.Bias[int32(i)] = *b
	}
	return r, n, nil
}
