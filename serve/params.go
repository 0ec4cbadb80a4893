package serve

import (
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
		Continuous  any     `json:"continuous_usage_stats" default:"false"`
	} `json:"stream_options"`
	Slide bool `json:"slide"` // drop the older half of the text when its capacity is exceeded
	Keep  int  `json:"keep"`  // number of first tokens never dropped

	Ignored
	Defaults

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
	RequestID  ignored `json:"request_id"`
	RID        ignored `json:"rid"`
	Session    ignored `json:"session_id"`
	Trace      ignored `json:"trace"`
	Streamed   ignored `json:"stream_reasoning"`
	Cache      ignored `json:"cache_prompt"`
	Slot       ignored `json:"id_slot"`
	KeepAlive  ignored `json:"keep_alive"`
	TTL        ignored `json:"ttl"`
	Drafted    ignored `json:"num_draft_tokens"`

	// Settings of ways of sampling that Defaults requires to be off.
	MirostatTau   ignored `json:"mirostat_tau"`
	MirostatEta   ignored `json:"mirostat_eta"`
	DRYBase       ignored `json:"dry_base"`
	DRYAllowed    ignored `json:"dry_allowed_length"`
	DRYLast       ignored `json:"dry_penalty_last_n"`
	DRYBreakers   ignored `json:"dry_sequence_breakers"`
	XTCThreshold  ignored `json:"xtc_threshold"`
	DynamicExp    ignored `json:"dynatemp_exponent"`
	GuidedBackend ignored `json:"guided_decoding_backend"`
}

// Defaults holds the fields of other servers and of older interfaces that clients send with null or with their default,
// the value of the tag, which is what this server does anyway. Other values are errors, which name the field of the tag
// instead, if it has one.
type Defaults struct {
	// OpenAI
	Format       any `json:"response_format" default:"{\"type\":\"text\"}"`
	Modalities   any `json:"modalities" default:"[\"text\"]"`
	Audio        any `json:"audio" default:"null"`
	Verbosity    any `json:"verbosity" default:"\"medium\""`
	WebSearch    any `json:"web_search_options" default:"null"`
	Functions    any `json:"functions" default:"[]"`
	FunctionCall any `json:"function_call" default:"\"none\""`
	// vLLM and SGLang
	StopTokens       any `json:"stop_token_ids" default:"[]"`
	IncludeStop      any `json:"include_stop_str_in_output" default:"false"`
	NoStopTrim       any `json:"no_stop_trim" default:"false"`
	IgnoreEnd        any `json:"ignore_eos" default:"false"`
	MinTokens        any `json:"min_tokens" default:"0"`
	SkipSpecial      any `json:"skip_special_tokens" default:"true"`
	Reasoning        any `json:"include_reasoning" default:"true"`
	SpaceSpecial     any `json:"spaces_between_special_tokens" default:"true"`
	LengthPenalty    any `json:"length_penalty" default:"1"`
	EarlyStopping    any `json:"early_stopping" default:"false"`
	BeamSearch       any `json:"use_beam_search" default:"false"`
	BadWords         any `json:"bad_words" default:"[]"`
	AllowedTokens    any `json:"allowed_token_ids" default:"null"`
	Truncate         any `json:"truncate_prompt_tokens" default:"null"`
	PromptLogProbs   any `json:"prompt_logprobs" default:"null"`
	TokensAsIDs      any `json:"return_tokens_as_token_ids" default:"false"`
	TokenIDs         any `json:"return_token_ids" default:"false"`
	GenerationTurn   any `json:"add_generation_prompt" default:"true"`
	ContinueFinal    any `json:"continue_final_message" default:"false"`
	Documents        any `json:"documents" default:"[]"`
	ChatTemplate     any `json:"chat_template" default:"null"`
	Structured       any `json:"structured_outputs" default:"null"`
	GuidedJSON       any `json:"guided_json" default:"null"`
	GuidedRegex      any `json:"guided_regex" default:"null"`
	GuidedChoice     any `json:"guided_choice" default:"null"`
	GuidedGrammar    any `json:"guided_grammar" default:"null"`
	Regex            any `json:"regex" default:"null"`
	Grammar          any `json:"ebnf" default:"null"`
	Priority         any `json:"priority" default:"0"`
	Typical          any `json:"typical_p" default:"1"`
	StopRegex        any `json:"stop_regex" default:"[]"`
	StructuralTag    any `json:"structural_tag" default:"null"`
	GuidedPattern    any `json:"guided_whitespace_pattern" default:"null"`
	LogitsProcessor  any `json:"custom_logit_processor" default:"null"`
	LogitsProcessors any `json:"logits_processors" default:"[]"`
	LoRAPath         any `json:"lora_path" default:"null"`
	PromptEmbeds     any `json:"prompt_embeds" default:"null"`
	HiddenStates     any `json:"return_hidden_states" default:"false"`
	Separate         any `json:"separate_reasoning" default:"false"`
	KVTransfer       any `json:"kv_transfer_params" default:"null"`
	// llama.cpp, LM Studio and Ollama
	RepeatPenalty      any `json:"repeat_penalty" default:"1" instead:"repetition_penalty"`
	RepeatLast         any `json:"repeat_last_n" default:"-1"`
	Predict            any `json:"n_predict" default:"-1" instead:"max_tokens"`
	NumPredict         any `json:"num_predict" default:"-1" instead:"max_tokens"`
	KeepTokens         any `json:"n_keep" default:"0" instead:"keep"`
	Indent             any `json:"n_indent" default:"0"`
	Probs              any `json:"n_probs" default:"0" instead:"logprobs"`
	MinKeep            any `json:"min_keep" default:"0"`
	TimeLimit          any `json:"t_max_predict_ms" default:"0"`
	Samplers           any `json:"samplers" default:"[]"`
	Mirostat           any `json:"mirostat" default:"0"`
	DRY                any `json:"dry_multiplier" default:"0"`
	XTC                any `json:"xtc_probability" default:"0"`
	DynamicTemperature any `json:"dynatemp_range" default:"0"`
	TopNSigma          any `json:"top_n_sigma" default:"-1"`
	PenalizeNewline    any `json:"penalize_nl" default:"false"`
	GBNF               any `json:"grammar" default:"\"\""`
	JSONSchema         any `json:"json_schema" default:"null"`
	Images             any `json:"image_data" default:"[]"`
	Adapters           any `json:"lora" default:"[]"`
	ReturnTokens       any `json:"return_tokens" default:"false"`
	Timings            any `json:"timings_per_token" default:"false"`
	SampledProbs       any `json:"post_sampling_probs" default:"false"`
	Progress           any `json:"return_progress" default:"false"`
	ResponseFields     any `json:"response_fields" default:"[]"`
	ReasoningFormat    any `json:"reasoning_format" default:"\"none\""`
	Preset             any `json:"preset" default:"null"`
	Think              any `json:"think" default:"false" instead:"reasoning_effort"`
	Options            any `json:"options" default:"{}"`
	DebugRender        any `json:"_debug_render_only" default:"false"`
	// mlx_lm.server
	MLXAdapters    any `json:"adapters" default:"null"`
	DraftModel     any `json:"draft_model" default:"null"`
	RoleMapping    any `json:"role_mapping" default:"null"`
	RepetitionLast any `json:"repetition_context_size" default:"null"`
	PresenceLast   any `json:"presence_context_size" default:"null"`
	FrequencyLast  any `json:"frequency_context_size" default:"null"`
	// OpenRouter
	Reasonings any `json:"reasoning" default:"null" instead:"reasoning_effort"`
	Provider   any `json:"provider" default:"null"`
	Models     any `json:"models" default:"[]"`
	Route      any `json:"route" default:"null"`
	Transforms any `json:"transforms" default:"[]"`
	Plugins    any `json:"plugins" default:"[]"`
	TopA       any `json:"top_a" default:"0"`
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
