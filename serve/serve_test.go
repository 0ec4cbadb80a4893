package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/tokenizer"
)

const template = `{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}:{{ m.content }}` +
	`{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments.a }}{% endfor %};{% endfor %}{{ more }}{{ reasoning_effort }}{% if add_generation_prompt %}!{% endif %}`

// open returns a server of a model whose 40 tokens are bytes, and what it computes with.
func open(t *testing.T, o generate.Options, c Config) (*Server, *generate.Generator) {
	t.Helper()
	return openTemplate(t, template, o, c)
}

func openTemplate(t *testing.T, template string, o generate.Options, c Config) (*Server, *generate.Generator) {
	t.Helper()
	b, err := tokenizer.Bytes()
	require.NoError(t, err)
	return openTokenizer(t, b, template, o, c)
}

// openTokenizer is openTemplate with a tokenizer.json of at most 40 tokens, or with more that the model never writes.
func openTokenizer(t *testing.T, tokens []byte, template string, o generate.Options, c Config) (*Server, *generate.Generator) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"model.safetensors", checkpoint.ConfigName} {
		b, err := os.ReadFile(filepath.Join("../models/testdata/mixtral", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o666))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, tokenizer.FileName), tokens, 0o666))
	if template != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(template), 0o666))
	}
	files, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer files.Close()
	model, err := models.Open(files)
	require.NoError(t, err)
	o.Tokenizer, err = generate.Tokenizer(files)
	require.NoError(t, err)
	g, err := generate.Open(t.Context(), model, files, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	c.Name, c.Tokenizer = "m", o.Tokenizer
	if c.Tokens == 0 {
		c.Tokens = 1 << 30 // texts that slide end with their clients
	}
	s, err := New(g, c)
	require.NoError(t, err)
	return s, g
}

// start is open behind a listener.
func start(t *testing.T, o generate.Options, c Config) (*httptest.Server, *Server, *generate.Generator) {
	s, g := open(t, o, c)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h, s, g
}

// post returns the answer to a request.
func post(t *testing.T, url, body string) (status int, header http.Header, answer string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, r.Header, string(b)
}

// choices returns the texts of an answer, whole or a stream, by index.
func choices(t *testing.T, answer string) (texts []string, finish []string) {
	t.Helper()
	texts, finish = make([]string, 8), make([]string, 8)
	objects := []string{answer}
	if strings.HasPrefix(answer, "data: ") {
		objects = nil
		require.True(t, strings.HasSuffix(answer, "\n\ndata: [DONE]\n\n"), answer)
		for _, e := range strings.Split(strings.TrimSuffix(answer, "data: [DONE]\n\n"), "\n\n") {
			if e != "" {
				objects = append(objects, strings.TrimPrefix(e, "data: "))
			}
		}
	}
	for _, o := range objects {
		var b struct {
			Choices []struct {
				Index          int
				Text           string
				Delta, Message struct{ Content string }
				Finish         *string `json:"finish_reason"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(o), &b), o)
		for _, c := range b.Choices {
			texts[c.Index] += c.Text + c.Delta.Content + c.Message.Content
			if c.Finish != nil {
				finish[c.Index] += *c.Finish
			}
		}
	}
	return texts, finish
}

func TestCompletions(t *testing.T) {
	h, s, _ := start(t, generate.Options{Room: 60, Sequences: 4}, Config{})
	url := h.URL + "/v1/completions"
	whole := func(body string) (texts, finish []string, answer string) {
		t.Helper()
		status, _, answer := post(t, url, body)
		require.Equal(t, 200, status, answer)
		texts, finish = choices(t, answer)
		return texts, finish, answer
	}
	texts, finish, answer := whole(`{"prompt": "!\"#$", "max_tokens": 20, "temperature": 0}`)
	require.Len(t, texts[0], 20)
	require.Equal(t, "length", finish[0])
	require.Contains(t, answer, `"object":"text_completion"`)
	require.Contains(t, answer, `"usage":{"prompt_tokens":4,"completion_tokens":20,"total_tokens":24,`)
	want := texts[0]

	streamed, finish, answer := whole(`{"prompt": "!\"#$", "max_tokens": 20, "temperature": 0, "stream": true, "stream_options": {"include_usage": true}}`)
	require.Equal(t, want, streamed[0])
	require.Equal(t, "length", finish[0])
	require.Greater(t, strings.Count(answer, "data: "), 20)
	require.Contains(t, answer, `"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":20,`)

	// Tokens are a prompt, too, and several prompts have an answer each.
	ids, err := s.c.Tokenizer.Encode(`!"#$`, tokenizer.Options{})
	require.NoError(t, err)
	tokens, err := json.Marshal(ids)
	require.NoError(t, err)
	for _, prompt := range []string{string(tokens), "[" + string(tokens) + "]", `["!\"#$"]`} {
		texts, _, _ = whole(`{"prompt": ` + prompt + `, "max_tokens": 20, "temperature": 0, "model": "m"}`)
		require.Equal(t, want, texts[0], prompt)
	}
	texts, _, _ = whole(`{"prompt": ["#", "!\"#$"], "max_tokens": 20, "temperature": 0, "echo": true}`)
	require.Equal(t, `!"#$`+want, texts[1])

	// What some editors write in front of a text changes nothing.
	texts, _, _ = whole("\ufeff" + `{"prompt": "!\"#$", "max_tokens": 20, "temperature": 0}`)
	require.Equal(t, want, texts[0])

	// A prompt counts once, however many answers it has, and so do those of its tokens that were in caches.
	for range 2 {
		_, _, answer = whole(`{"prompt": "!\"#$", "max_tokens": 2, "n": 4}`)
		var counts struct{ Usage usage }
		require.NoError(t, json.Unmarshal([]byte(answer), &counts))
		require.Equal(t, 4, counts.Usage.Prompt)
		require.LessOrEqual(t, counts.Usage.Details.Cached, 3)
	}

	// A seed gives the same text again, and each of several answers has its own.
	sampled := `{"prompt": "!\"#$", "max_tokens": 20, "seed": %d, "n": %d, "stream": %v}`
	first, _, _ := whole(fmt.Sprintf(sampled, 5, 2, false))
	again, _, _ := whole(fmt.Sprintf(sampled, 5, 2, true))
	other, _, _ := whole(fmt.Sprintf(sampled, 6, 1, false))
	require.Equal(t, first, again)
	require.NotEqual(t, first[0], first[1])
	require.Equal(t, first[1], other[0])

	stop, err := json.Marshal(want[7:9])
	require.NoError(t, err)
	for _, stream := range []bool{false, true} {
		texts, finish, _ = whole(fmt.Sprintf(`{"prompt": "!\"#$", "max_tokens": 20, "temperature": 0, "stop": [%s], "stream": %v}`, stop, stream))
		require.Equal(t, want[:strings.Index(want, want[7:9])], texts[0])
		require.Equal(t, "stop", finish[0])
	}

	_, _, answer = whole(`{"prompt": "!\"#$", "max_tokens": 3, "temperature": 0, "logprobs": 2}`)
	var b struct {
		Choices []struct{ LogProbs textLogProbs }
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &b))
	p := b.Choices[0].LogProbs
	require.Equal(t, want[:3], strings.Join(p.Tokens, ""))
	require.Equal(t, []int{0, 1, 2}, p.Offsets)
	require.Len(t, p.Top[0], 2)
	require.Equal(t, *p.Values[0], p.Top[0][p.Tokens[0]])

	// A text that slides goes on where its room is full.
	texts, _, _ = whole(`{"prompt": "!\"#$", "max_tokens": 90, "temperature": 0, "slide": true, "keep": 4}`)
	require.Len(t, texts[0], 90)
}

func TestChat(t *testing.T) {
	// The model has no tokens for letters.
	s, _ := openTemplate(t, `{% for m in messages %}{{ m.content }}{% endfor %}!`, generate.Options{Room: 60, Sequences: 2}, Config{})
	h := httptest.NewServer(s)
	defer h.Close()
	ask := func(more string) string {
		t.Helper()
		status, _, answer := post(t, h.URL+"/v1/chat/completions", `{"messages": [{"role": "user", "content": [{"type": "text", "text": "#$"}]}], "max_completion_tokens": 12, "temperature": 0`+more+`}`)
		require.Equal(t, 200, status, answer)
		return answer
	}
	answer := ask(`, "logprobs": true, "top_logprobs": 3`)
	texts, finish := choices(t, answer)
	require.Len(t, texts[0], 12)
	require.Equal(t, "length", finish[0])
	require.Contains(t, answer, `"object":"chat.completion"`)
	require.Contains(t, answer, `"message":{"role":"assistant","content":`)
	require.Equal(t, 12*4, strings.Count(answer, `"logprob":`))
	stream := ask(`, "stream": true`)
	streamed, finish := choices(t, stream)
	require.Equal(t, texts, streamed)
	require.Equal(t, "length", finish[0])
	require.Contains(t, stream, `"object":"chat.completion.chunk"`)
	require.Contains(t, strings.SplitN(stream, "\n", 2)[0], `"delta":{"role":"assistant","content":""}`)
}

// The page asks for conversations or for texts, as the list of models says whether there is a template.
func TestTemplate(t *testing.T) {
	for template, want := range map[string]string{`{{ messages }}`: `"chat":true}`, "": `"chat":false}`} {
		s, _ := openTemplate(t, template, generate.Options{Room: 20}, Config{})
		h := httptest.NewServer(s)
		defer h.Close()
		r, err := http.Get(h.URL + "/v1/models")
		require.NoError(t, err)
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Contains(t, string(b), want)
		status, _, answer := post(t, h.URL+"/v1/chat/completions", `{"messages": [{"role": "user", "content": "!"}], "max_tokens": 2}`)
		if template == "" {
			require.Equal(t, 400, status, answer)
			require.Contains(t, answer, "the model has no chat template; write the prompt as text")
		}
		status, _, answer = post(t, h.URL+"/v1/completions", `{"prompt": "!#", "max_tokens": 200, "slide": true, "stream": true}`)
		require.Equal(t, 200, status, answer)
	}
}

// The template gets messages, tools, calls and further variables.
func TestConversation(t *testing.T) {
	s, _ := open(t, generate.Options{Room: 20}, Config{})
	for want, body := range map[string]string{
		"user:a;!":              `{"messages": [{"role": "user", "content": "a"}]}`,
		"user:ab;!":             `{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]}`,
		"user:a;b!":             `{"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"more": "b"}}`,
		`["x"]user:a;!`:         `{"messages": [{"role": "user", "content": "a"}], "tools": ["x"], "tool_choice": "auto"}`,
		"user:b;!":              `{"messages": [{"role": "user", "content": "b"}], "tools": ["x"], "tool_choice": "none"}`,
		"user:c;!":              `{"messages": [{"role": "user", "content": "c"}], "tools": [], "tool_choice": null}`,
		"user:d;assistant:f8;!": `{"messages": [{"role": "user", "content": "d", "name": null}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"a": 8}}}]}], "tools": ""}`,
		"assistant:;!":          `{"messages": [{"role": "assistant", "content": null, "tool_calls": [], "refusal": null}], "tools": null}`,
		"assistant:f;!":         `{"messages": [{"role": "assistant", "content": null, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": " "}}]}]}`,
		"user:f;high!":          `{"messages": [{"role": "user", "content": "f"}], "reasoning_effort": "high", "chat_template_kwargs": {"thinking": false}}`,
		"user:f;none!":          `{"messages": [{"role": "user", "content": "f"}], "reasoning_effort": "none"}`,
		"user:g;low!":           `{"messages": [{"role": "user", "content": "g"}], "chat_template_kwargs": {"reasoning_effort": "low"}, "reasoning_effort": null}`,
		"developer:e;!":         `{"messages": [{"role": "developer", "content": "e"}]}`,
		"assistant:f7;!":        `{"messages": [{"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{\"a\": 7}"}}]}]}`,
	} {
		var q chat
		require.NoError(t, json.Unmarshal([]byte(body), &q))
		ids, err := s.conversation(&q)
		require.NoError(t, err, body)
		require.Equal(t, want, s.c.Tokenizer.Decode(ids))
	}
}

func TestRefuses(t *testing.T) {
	h, _, _ := start(t, generate.Options{Room: 30}, Config{Body: 1000})
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/v1/completions", `{"prompt": "!"`, 400, "the request is no complete JSON object"},
		{"POST", "/v1/completions", ``, 400, "the request is no complete JSON object"},
		{"POST", "/v1/completions", `[]`, 400, "the request: array, want an object"},
		{"POST", "/v1/completions", `{"prompt": "!"} x`, 400, "invalid character 'x' after top-level value"},
		{"POST", "/v1/completions", `{"prompt": "!", "zzz": 1}`, 400, `"message":"unknown field \"zzz\"","type":"invalid_request_error","param":"zzz"`},
		{"POST", "/v1/completions", `{"prompt": "!", "model": "x"}`, 404, `there is no model \"x\"; there is \"m\"`},
		{"POST", "/v1/completions", `{"prompt": ""}`, 400, "an empty prompt"},
		{"POST", "/v1/completions", `{"prompt": null}`, 400, "0 prompts, want 1 to 64"},
		{"POST", "/v1/completions", `{}`, 400, `"param":"prompt"`},
		{"POST", "/v1/completions", `{"prompt": []}`, 400, "0 prompts, want 1 to 64"},
		{"POST", "/v1/completions", `{"prompt": [1, "x"]}`, 400, "neither"},
		{"POST", "/v1/completions", `{"prompt": [77]}`, 400, "token 0 of the prompt is 77"},
		{"POST", "/v1/completions", `{"prompt": "a"}`, 400, "token 0 of the prompt is 97"},
		{"POST", "/v1/completions", `{"prompt": "!", "max_tokens": 31}`, 400, `"code":"context_length_exceeded"`},
		{"POST", "/v1/completions", `{"prompt": "!", "max_tokens": 0}`, 400, `"param":"max_tokens"`},
		{"POST", "/v1/completions", `{"prompt": "!", "temperature": -1}`, 400, "temperature -1"},
		{"POST", "/v1/completions", `{"prompt": "!", "n": 17}`, 400, "17 answers, want 1 to 16"},
		{"POST", "/v1/completions", `{"prompt": "!", "logprobs": 21}`, 400, "the 21 most likely tokens"},
		{"POST", "/v1/completions", `{"prompt": "!", "stop": [""]}`, 400, "empty text at which to stop"},
		{"POST", "/v1/completions", `{"prompt": "!", "stop": 3}`, 400, "want a text or a list of texts"},
		{"POST", "/v1/completions", `{"prompt": "!", "suffix": "x"}`, 400, `"param":"suffix"`},
		{"POST", "/v1/completions", `{"prompt": "!", "best_of": 3}`, 400, `"param":"best_of"`},
		{"POST", "/v1/completions", `{"prompt": "!", "frequency_penalty": 1e39}`, 400, "frequency 1e+39, want a number from -3.4e+38 to 3.4e+38"},
		{"POST", "/v1/completions", `{"prompt": "!", "logit_bias": {"x": 1}}`, 400, `token \"x\", want its number`},
		{"POST", "/v1/completions", `{"prompt": "!", "logit_bias": {"5": null}}`, 400, `token 5: null, want a number`},
		{"POST", "/v1/completions", `{"prompt": "!", "logit_bias": {"40": 1}}`, 400, "token 40 has a bias, want one of 0 to 39"},
		{"POST", "/v1/completions", `{"prompt": "!", "logit_bias": {"-1": 1}}`, 400, `token \"-1\", want its number`},
		{"POST", "/v1/completions", `{"prompt": [1, null]}`, 400, "the prompt is neither a text nor a list of tokens"},
		{"POST", "/v1/completions", `{"prompt": [[1], [null]]}`, 400, "the prompt is neither a text nor a list of tokens"},
		{"POST", "/v1/completions", `{"prompt": "!", "stop": ["a", null]}`, 400, "stop: want a text or a list of texts, and have"},
		{"POST", "/v1/completions", `{"prompt": "!", "logit_bias": {"4": "x"}}`, 400, `"message":"logit_bias.4: string, want a number of 64 bits","type":"invalid_request_error","param":"logit_bias.4"`},
		{"POST", "/v1/completions", `{"prompt": "!", "temperature": 1e300}`, 400, "temperature 1e+300, want a number from 0 to 3.4e+38"},
		{"POST", "/v1/completions", `{"prompt": "!", "MAX_TOKENS": 3}`, 400, `"message":"unknown field \"MAX_TOKENS\"","type":"invalid_request_error","param":"MAX_TOKENS"`},
		{"POST", "/v1/completions", `{"prompt": "!", "stream": true, "stream_options": {"Include_usage": true}}`, 400, `"param":"stream_options.Include_usage"`},
		{"POST", "/v1/completions", `{"prompt": "!", "max_tokens": 3, "max_tokens": 3}`, 400, `"message":"field \"max_tokens\" is there twice","type":"invalid_request_error","param":"max_tokens"`},
		{"POST", "/v1/completions", `{"prompt": "!", "logit_bias": {"1": 1, "1": 2}}`, 400, `field \"1\" is there twice`},
		{"POST", "/v1/completions", `{"prompt": "!", "max_tokens": 1.5}`, 400, `"message":"max_tokens: number 1.5, want an integer of 64 bits","type":"invalid_request_error","param":"max_tokens"`},
		{"POST", "/v1/completions", `{"prompt": "!", "stream": 1}`, 400, `"message":"stream: number, want true or false"`},
		{"POST", "/v1/completions", "{\"prompt\": \"!\xff\"}", 400, "column 14: not UTF-8"},
		{"POST", "/v1/completions", `{"prompt": "!", "stream_options": {}}`, 400, "stream_options without stream"},
		{"POST", "/v1/completions", `{"prompt": "` + strings.Repeat("!", 1000) + `"}`, 413, "longer than 1000 bytes"},
		{"POST", "/v1/chat/completions", `{}`, 400, "no messages"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "a"}]}`, 400, "token 0 of the prompt is 117"},
		{"POST", "/v1/chat/completions", `{"messages": [{"content": "a"}]}`, 400, "message 0: its role is , want a text"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": 3}]}`, 400, "message 0: its content is 3"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`, 400, `of type \"image_url\", want text`},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user"}], "tool_choice": "required"}`, 400, "want auto or none"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user"}], "top_logprobs": 2}`, 400, "without logprobs"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user"}], "response_format": {"type": "json_object"}}`, 400, `there is no response_format here: want {\"type\":\"text\"}, or leave it out`},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user"}], "max_tokens": 1, "max_completion_tokens": 2}`, 400, "want one of them"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user"}], "reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "low"}}`, 400, "reasoning_effort is in chat_template_kwargs, too; want one of them"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user"}], "reasoning_effort": 3}`, 400, `"param":"reasoning_effort"`},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user"}], "chat_template_kwargs": {"thinking": true}}`, 400, `the chat template reads no \"thinking\", which would have no effect; leave it out","type":"invalid_request_error","param":"chat_template_kwargs"`},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user"}], "min_tokens": 3}`, 400, `"message":"there is no min_tokens here: want 0, or leave it out","type":"invalid_request_error","param":"min_tokens"`},
		{"POST", "/v1/completions", `{"prompt": "!", "guided_json": {}}`, 400, `"message":"there is no guided_json here: leave it out","type":"invalid_request_error","param":"guided_json"`},
		{"POST", "/v1/completions", `{"prompt": "!", "repeat_penalty": 1.1}`, 400, `"message":"there is no repeat_penalty here: want 1, or give repetition_penalty, or leave it out","type":"invalid_request_error","param":"repeat_penalty"`},
		{"POST", "/v1/completions", `{"prompt": "!", "stream": true, "stream_options": {"continuous_usage_stats": true}}`, 400, `"message":"there is no stream_options.continuous_usage_stats here: want false, or leave it out","type":"invalid_request_error","param":"stream_options.continuous_usage_stats"`},
		{"POST", "/v1/completions", `{"prompt": "!", "top_k": -2}`, 400, "top-k -2, want at least 0"},
		{"GET", "/v1/completions", ``, 405, "want POST"},
		{"POST", "/v1/models", ``, 405, "want GET"},
		{"GET", "/v1/models/x", ``, 404, "model_not_found"},
		{"GET", "/v1", ``, 404, "there is no /v1; there are /v1/chat/completions"},
	} {
		r, err := http.NewRequest(c.method, h.URL+c.path, strings.NewReader(c.body))
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		b, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		answer.Body.Close()
		if answer.StatusCode != c.status || !strings.Contains(string(b), c.want) || answer.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %.80s: status %d and\n%s\nwant %d and\n%s", c.method, c.path, c.body, answer.StatusCode, b, c.status, c.want)
		}
	}
}

// Fields of other servers are accepted with their defaults, and as null. The effort none is accepted by templates that read none.
func TestDefaults(t *testing.T) {
	s, _ := openTemplate(t, `{% for m in messages %}{{ m.content }}{% endfor %}`, generate.Options{Room: 30}, Config{})
	h := httptest.NewServer(s)
	defer h.Close()
	const both = `"top_k": -1, "stop_token_ids": [], "ignore_eos": false, "min_tokens": 0, "skip_special_tokens": true, "spaces_between_special_tokens": true, "length_penalty": 1.0, "early_stopping": false, "use_beam_search": false,
		"include_stop_str_in_output": false, "best_of": 1, "echo": false, "response_format": {"type": "text"}, "prompt_logprobs": null, "guided_json": null, "priority": 0, "user": "a", "prompt_cache_retention": "24h",
		"cache_prompt": true, "mirostat": 0, "mirostat_tau": 5.0, "repeat_penalty": 1.0, "n_probs": 0, "dry_multiplier": 0, "xtc_probability": 0, "grammar": "", "id_slot": -1, "n_predict": -1, "samplers": [],
		"structural_tag": null, "request_id": "abc", "stream": true, "stream_options": {"continuous_usage_stats": false}, "adapters": null, "draft_model": null, "provider": null, "transforms": [], "reasoning": null, "ttl": 60, "options": {}`
	for path, fields := range map[string]string{
		"completions": `"prompt": "!", "add_special_tokens": true, "suffix": "", ` + both,
		"chat/completions": `"messages": [{"role": "user", "content": "!"}], "modalities": ["text"], "audio": null, "functions": [], "function_call": "none", "verbosity": "medium", "reasoning_effort": "none", "web_search_options": null, "tools": [],
			"top_logprobs": 0, "add_generation_prompt": true, "continue_final_message": false, "add_special_tokens": false, "documents": null, "chat_template": null, ` + both,
	} {
		status, _, answer := post(t, h.URL+"/v1/"+path, "{"+fields+`, "max_tokens": 2}`)
		require.Equal(t, 200, status, answer)
	}
	// Fields that the template does not read are refused by name.
	for field, value := range map[string]string{"tools": `[{"type": "function"}]`, "reasoning_effort": `"low"`} {
		status, _, answer := post(t, h.URL+"/v1/chat/completions", fmt.Sprintf(`{"messages": [{"role": "user", "content": "!"}], "max_tokens": 2, %q: %s}`, field, value))
		require.Equal(t, 400, status, answer)
		require.Contains(t, answer, fmt.Sprintf(`the chat template reads no \"%s\", which would have no effect; leave it out","type":"invalid_request_error","param":"%s"`, field, field))
	}
	// Each of the table is refused with another value.
	for _, of := range []any{chat{}, completion{}} {
		seen := map[string]bool{}
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if only, ok := f.Tag.Lookup("default"); ok {
				name := f.Tag.Get("json")
				seen[name] = true
				for text, fails := range map[string]bool{only: false, "null": false, `"another"`: true} {
					err := parse([]byte(fmt.Sprintf(`{%q: %s}`, name, text)), reflect.New(reflect.TypeOf(of)).Interface())
					require.Equal(t, fails, err != nil, "%s: %s: %v", name, text, err)
				}
			}
		}
		for i := range reflect.TypeFor[Defaults]().NumField() { // none is hidden by another field's name
			require.True(t, seen[reflect.TypeFor[Defaults]().Field(i).Tag.Get("json")], "%T: %v", of, reflect.TypeFor[Defaults]().Field(i))
		}
	}
}

// A hundred clients at once get what each would get alone, and the metrics have counted them.
func TestClients(t *testing.T) {
	h, _, g := start(t, generate.Options{Room: 40, Sequences: 8}, Config{})
	ask := func(i int) string {
		status, _, answer := post(t, h.URL+"/v1/completions", fmt.Sprintf(`{"prompt": [%d, %d], "max_tokens": %d, "seed": %d, "stream": %v}`, i%40, i%7, 3+i%9, i, i%2 == 0))
		require.Equal(t, 200, status, answer)
		texts, _ := choices(t, answer)
		return texts[0]
	}
	var want []string
	for i := range 10 {
		want = append(want, ask(i*10))
	}
	got := make([]string, 100)
	var wait sync.WaitGroup
	for i := range got {
		wait.Go(func() { got[i] = ask(i) })
	}
	wait.Wait()
	for i, text := range want {
		require.Equal(t, text, got[i*10])
	}
	require.Equal(t, 110, g.Stats().Requests)

	r, err := http.Get(h.URL + "/metrics")
	require.NoError(t, err)
	defer r.Body.Close()
	var lines bytes.Buffer
	for scan := bufio.NewScanner(r.Body); scan.Scan(); {
		require.Regexp(t, regexp.MustCompile(`^(# (HELP|TYPE) .+|[a-z_]+(\{[^}]*\})? [-+0-9.eE]+(Inf|NaN)?)$`), scan.Text())
		lines.WriteString(scan.Text() + "\n")
	}
	for _, want := range []string{"gomoe_texts_total 110\n", "gomoe_prompt_tokens_total ", "gomoe_waiting 0\n", "gomoe_sequences 8\n", `gomoe_requests_total{endpoint="completions",status="200"} 110` + "\n",
		"gomoe_first_token_seconds_count 110\n", `gomoe_request_seconds_count{endpoint="completions"} 110` + "\n"} {
		require.Contains(t, lines.String(), want)
	}
}

// A server needs a name and a tokenizer, and limits that are not below 0.
func TestNew(t *testing.T) {
	s, g := open(t, generate.Options{Room: 5}, Config{})
	_, err := New(g, Config{Name: "m"})
	require.ErrorContains(t, err, "want both")
	c := s.c
	c.Grace = -1
	_, err = New(g, c)
	require.ErrorContains(t, err, "below 0")
	_, err = g.Generate(context.Background(), generate.Request{Prompt: []int32{1}, N: 1}, func(generate.Token) bool { return true })
	require.NoError(t, err)
}

// An internal error names the part of the model, and no line of gomoe's code.
func TestErrorsScoped(t *testing.T) {
	pos := graph.Pos{File: "decoder.go", Line: 121, Scope: "model.layers.0"}
	lost := jaccl.Failed(t.Context(), 0, collective.Call{Op: "all_sum", DType: graph.U32, Bytes: 256, Pos: pos}, []int{1}, errors.New("rank 1 (vm) ended without a word"))
	p := problemOf(fmt.Errorf("generate: %w", &runtime.Error{Plan: "step", Name: "all_sum", Index: 31, Pos: pos, Err: lost}))
	require.Equal(t, "generate: model.layers.0: all_sum: rank 0, instruction 31 of plan step: rank 1 (vm) ended without a word; seen by rank 0 in all_sum #0 u32 256 bytes (model.layers.0)", p.Message)
}
