package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/tokenizer"
)

// chat is a request for the next message of a conversation.
type chat struct {
	params
	Messages      []json.RawMessage `json:"messages"`
	MaxCompletion *int              `json:"max_completion_tokens"`
	LogProbs      bool              `json:"logprobs"`
	TopLogProbs   *int              `json:"top_logprobs"`
	Tools         json.RawMessage   `json:"tools"`
	ToolChoice    json.RawMessage   `json:"tool_choice"`
	// Template holds additional variables for the model's chat template, and Effort is the one named reasoning_effort.
	Template json.RawMessage `json:"chat_template_kwargs"`
	Effort   *string         `json:"reasoning_effort"`

	BestOf        any `json:"best_of" default:"1"`
	Echo          any `json:"echo" default:"false"`
	SpecialTokens any `json:"add_special_tokens" default:"false"` // the chat template writes them
}

// chat answers POST /v1/chat/completions.
func (s *Server) chat(out *reply, r *http.Request) error {
	var p params
	var requests []generate.Request
	style := &chatStyle{object: object{ID: newID("chatcmpl"), Created: now(), Model: s.c.Name}, tok: s.c.Tokenizer}
	err := s.read(out.w, r, func(text []byte) (err error) {
		var q chat
		if err := parse(text, &q); err != nil {
			return err
		}
		requests, err = s.converse(&q)
		p, style.logprobs = q.params, q.LogProbs
		return err
	})
	if err != nil {
		return err
	}
	return s.answer(out, r, &p, requests, len(requests), style)
}

// converse returns the generation requests for a chat request, which share one prompt.
func (s *Server) converse(q *chat) ([]generate.Request, error) {
	if q.MaxCompletion != nil {
		if q.MaxTokens != nil && *q.MaxTokens != *q.MaxCompletion {
			return nil, wrong("max_tokens", "max_tokens and max_completion_tokens, want one of them")
		}
		q.MaxTokens = q.MaxCompletion
	}
	request, n, err := q.request(s)
	if err != nil {
		return nil, err
	}
	if q.TopLogProbs != nil {
		if request.Top = *q.TopLogProbs; !q.LogProbs && request.Top != 0 {
			return nil, wrong("top_logprobs", "top_logprobs without logprobs")
		}
	}
	if err := s.places(n); err != nil {
		return nil, err
	}
	if request.Prompt, err = s.conversation(q); err != nil {
		return nil, err
	}
	if err := s.room(request.Prompt, request); err != nil {
		return nil, err
	}
	requests := make([]generate.Request, n)
	for i := range requests {
		requests[i] = request
		requests[i].Seed += uint64(i)
	}
	return requests, nil
}

// conversation returns the tokens of a conversation, rendered by the model's chat template.
func (s *Server) conversation(q *chat) ([]int32, error) {
	if len(q.Messages) == 0 {
		return nil, wrong("messages", "no messages, want at least one")
	}
	messages, err := json.Marshal(q.Messages)
	if err != nil {
		return nil, wrong("messages", err.Error())
	}
	more, err := q.variables()
	if err != nil {
		return nil, err
	}
	c := tokenizer.Conversation{Messages: messages, Tools: q.Tools, More: more, Generate: true}
	switch choice := strings.Trim(string(q.ToolChoice), `"`); choice {
	case "", "null", "auto":
	case "none":
		c.Tools = nil
	default:
		return nil, wrong("tool_choice", fmt.Sprintf("tool_choice %s: the model chooses by itself; want auto or none", quoted.Plain(q.ToolChoice)))
	}
	text, err := s.c.Tokenizer.Prompt(c)
	if err != nil {
		field := "messages"
		if unread, ok := errors.AsType[*tokenizer.UnreadError](err); ok {
			if field = "chat_template_kwargs"; unread.Name == "tools" || unread.Name == effort && q.Effort != nil {
				field = unread.Name
			}
		}
		return nil, wrong(field, err.Error())
	}
	return s.encode("messages", text, tokenizer.Options{Bare: true})
}

// effort is the field, and the variable of chat templates, that says how much the model reasons.
const effort = "reasoning_effort"

// variables returns the further variables of the chat template.
func (q *chat) variables() (json.RawMessage, error) {
	if q.Effort == nil {
		return q.Template, nil
	}
	var more map[string]json.RawMessage
	if len(q.Template) > 0 && strictjson.UnmarshalOnce(q.Template, &more) != nil {
		return q.Template, nil // the template's error
	}
	if _, ok := more[effort]; ok {
		return nil, wrong(effort, effort+" is in chat_template_kwargs, too; want one of them")
	}
	all := map[string]any{effort: *q.Effort}
	for name, value := range more {
		all[name] = value
	}
	return json.Marshal(all)
}

// chatStyle formats chat messages.
type chatStyle struct {
	object
	tok      *tokenizer.Tokenizer
	logprobs bool
}

type message struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  *message      `json:"message,omitempty"`
	Delta    *message      `json:"delta,omitempty"`
	LogProbs *chatLogProbs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
}

type chatLogProbs struct {
	Content []chatLogProb `json:"content"`
}

type chatLogProb struct {
	alternative
	Top []alternative `json:"top_logprobs"`
}

type alternative struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

func (st *chatStyle) alternative(id int32, logprob float64) alternative {
	a := alternative{Token: tokenText(st.tok, id), LogProb: logprob, Bytes: []int{}}
	for _, b := range st.tok.Bytes(id) {
		a.Bytes = append(a.Bytes, int(b))
	}
	return a
}

func (st *chatStyle) probabilities(tokens []generate.Token) *chatLogProbs {
	if !st.logprobs || len(tokens) == 0 {
		return nil
	}
	all := &chatLogProbs{Content: []chatLogProb{}}
	for _, t := range tokens {
		p := chatLogProb{st.alternative(t.ID, t.LogProb), []alternative{}}
		for _, x := range t.Top {
			p.Top = append(p.Top, st.alternative(x.ID, x.LogProb))
		}
		all.Content = append(all.Content, p)
	}
	return all
}

func (st *chatStyle) head(chunk bool) object {
	o := st.object
	if o.Kind = "chat.completion"; chunk {
		o.Kind = "chat.completion.chunk"
	}
	return o
}

func (st *chatStyle) begin(i int) any {
	empty := ""
	return chatChoice{Index: i, Delta: &message{"assistant", &empty}}
}

func (st *chatStyle) choice(i int, a *part) any {
	delta := &message{}
	if a.text != "" {
		delta.Content = &a.text
	}
	// Format the part before its text changes.
	return chatChoice{Index: i, Delta: delta, LogProbs: st.probabilities(a.tokens), Finish: a.finish}
}

func (st *chatStyle) whole(i int, a *part) any {
	return chatChoice{Index: i, Message: &message{"assistant", &a.text}, LogProbs: st.probabilities(a.tokens), Finish: a.finish}
}
