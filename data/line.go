package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/tokenizer"
)

// line holds the known members of a JSON line: a text, a prompt with its completion, or a conversation in one of
// several forms.
type line struct {
	Text          *string           `json:"text"`
	Prompt        json.RawMessage   `json:"prompt"`
	Completion    json.RawMessage   `json:"completion"`
	Messages      []json.RawMessage `json:"messages"`
	Conversations []json.RawMessage `json:"conversations"` // ShareGPT's name for messages
	// Alpaca's form: an instruction, its input, and the answer. Dolly uses context and response for input and output.
	// System and History are LLaMA-Factory's.
	Instruction *string    `json:"instruction"`
	Input       *string    `json:"input"`
	Output      *string    `json:"output"`
	History     [][]string `json:"history"`

	// Members with common names. They are used only if none of the forms above is present and their types fit.
	Context      json.RawMessage `json:"context"`
	Response     json.RawMessage `json:"response"`
	Question     json.RawMessage `json:"question"`
	Answer       json.RawMessage `json:"answer"`
	Conversation json.RawMessage `json:"conversation"`

	System   *string         `json:"system"`
	Tools    json.RawMessage `json:"tools"`
	Template json.RawMessage `json:"chat_template_kwargs"`
}

// Kinds of lines, for errors.
const kinds = "text, prompt with completion, and messages (or ShareGPT's conversations, Alpaca's instruction with output, prompt with response, or question with answer)"

// parse returns the document of a JSON line. It ignores unknown members.
func parse(t *tokenizer.Tokenizer, s []byte) (document, error) {
	var d document
	if !utf8.Valid(s) {
		return d, errors.New("not UTF-8")
	}
	var l line
	if err := strictjson.Unmarshal(s, &l); err != nil {
		return d, err
	}
	l.Prompt, l.Completion, l.Tools, l.Template = given(l.Prompt), given(l.Completion), given(l.Tools), given(l.Template)
	l.settle()
	has := []bool{l.Text != nil, l.Prompt != nil || l.Completion != nil, l.Messages != nil, l.Conversations != nil}
	which := slices.Index(has, true)
	if which >= 0 && slices.Contains(has[which+1:], true) || l.Completion != nil && l.Instruction != nil && l.Output != nil {
		return d, fmt.Errorf("more than one of %s", kinds)
	}
	var messages []message
	var err error
	switch {
	case which == 0:
		return text(*l.Text), nil
	case which == 1:
		var prompt, completion string
		switch {
		case l.Completion == nil && given(l.Response) != nil:
			return d, errors.New("prompt and response: want two texts; a list of messages as the prompt has a list as its completion")
		case l.Prompt == nil || l.Completion == nil:
			return d, errors.New("a prompt and a completion come together")
		}
		if json.Unmarshal(l.Prompt, &prompt) == nil && json.Unmarshal(l.Completion, &completion) == nil {
			return answer(prompt, completion), nil
		}
		messages, err = l.completed()
	case which == 2:
		messages, err = read(l.Messages)
	case which == 3:
		messages, err = read(l.Conversations)
	case l.Instruction != nil || l.Output != nil:
		messages, err = l.instructed()
	case given(l.Question) != nil && given(l.Answer) != nil:
		return d, errors.New("question and answer: want two texts")
	default:
		return d, fmt.Errorf("none of %s", kinds)
	}
	if err != nil {
		return d, err
	}
	if l.System != nil && *l.System != "" {
		first := said("system", *l.System)
		if len(messages) > 0 && messages[0].role == "system" && !sameText(messages[0], first) {
			return d, errors.New("system: the conversation begins with another system message; take one of them out")
		}
		if len(messages) == 0 || messages[0].role != "system" {
			messages = slices.Insert(messages, 0, first)
		}
	}
	// A fixed date, so that the tokens do not depend on when they are made.
	return conversation(t, tokenizer.Conversation{Tools: l.Tools, More: l.Template, Now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}, messages)
}

// settle decides which members to use if a line has members of several forms. Additional columns in Alpaca's rows
// repeat the instruction and the output as one text, and the prompt in UltraChat's rows repeats the first message.
func (l *line) settle() {
	if l.Instruction != nil && l.Output == nil {
		if l.Output = words(l.Response); l.Output != nil && l.Input == nil {
			l.Input = words(l.Context)
		}
	}
	talks := l.Messages != nil || l.Conversations != nil
	if l.Instruction != nil && l.Output != nil && !talks {
		l.Text = nil
		if l.Completion == nil {
			l.Prompt = nil
		}
	}
	if talks && l.Completion == nil && words(l.Prompt) != nil {
		l.Prompt = nil
	}
	if l.Text != nil || l.Completion != nil || talks || l.Instruction != nil || l.Output != nil {
		return
	}
	for _, pair := range [][2]json.RawMessage{{l.Prompt, l.Response}, {l.Question, l.Answer}} {
		if ask, reply := words(pair[0]), words(pair[1]); ask != nil && reply != nil {
			l.Prompt, l.Instruction, l.Output = nil, ask, reply
			l.Input, l.History = nil, nil
			return
		}
	}
	if l.Prompt == nil {
		_ = json.Unmarshal(l.Conversation, &l.Conversations) // other types are not conversations
	}
}

// words returns the text of a JSON string, or nil for any other value.
func words(v json.RawMessage) *string {
	var s *string
	if json.Unmarshal(v, &s) != nil {
		return nil
	}
	return s
}

// given returns v, or nil for null.
func given(v json.RawMessage) json.RawMessage {
	if string(v) == "null" {
		return nil
	}
	return v
}

// completed returns the messages of a prompt and a completion; only the completion is predicted.
func (l *line) completed() ([]message, error) {
	var before, after []json.RawMessage
	if json.Unmarshal(l.Prompt, &before) != nil || json.Unmarshal(l.Completion, &after) != nil {
		return nil, errors.New("prompt and completion: want two texts, or two lists of messages")
	}
	messages, err := read(slices.Concat(before, after))
	for i := range min(len(before), len(messages)) {
		messages[i].learn = false
	}
	return messages, err
}

// instructed returns the messages of Alpaca's form.
func (l *line) instructed() ([]message, error) {
	if l.Instruction == nil || l.Output == nil {
		return nil, errors.New("an instruction and an output come together")
	}
	var all []message
	for i, h := range l.History {
		if len(h) != 2 {
			return nil, fmt.Errorf("history.%d: a list of %d texts, want a question and its answer", i, len(h))
		}
		all = append(all, said("user", h[0]), said("assistant", h[1]))
	}
	ask := *l.Instruction
	if l.Input != nil && *l.Input != "" {
		if ask != "" {
			ask += "\n"
		}
		ask += *l.Input
	}
	return append(all, said("user", ask), said("assistant", *l.Output)), nil
}

// said returns a text message.
func said(role, content string) message {
	text, _ := json.Marshal(tokenizer.Message{Role: role, Content: content}) // cannot fail for texts
	return message{role, text, true}
}

// sameText reports whether two messages have the same content.
func sameText(a, b message) bool {
	var x, y struct {
		Content any `json:"content"`
	}
	return json.Unmarshal(a.text, &x) == nil && json.Unmarshal(b.text, &y) == nil && reflect.DeepEqual(x, y)
}

// read reads messages, which have either role and content, or ShareGPT's from and value.
func read(texts []json.RawMessage) ([]message, error) {
	var all []message
	for i, text := range texts {
		var head struct {
			Role   *string  `json:"role"`
			From   *string  `json:"from"`
			Weight *float64 `json:"weight"`
		}
		if bytes.TrimSpace(text)[0] != '{' {
			return nil, fmt.Errorf("message %d is no object with a role", i+1)
		}
		if err := strictjson.Unmarshal(text, &head); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		if head.Role == nil && head.From == nil {
			return nil, fmt.Errorf("message %d is no object with a role", i+1)
		}
		m := message{text: text, learn: true}
		if head.Role != nil {
			m.role = *head.Role
		}
		if head.Weight != nil {
			if *head.Weight != 0 && *head.Weight != 1 {
				return nil, fmt.Errorf("message %d: weight %v, want 0 or 1", i+1, *head.Weight)
			}
			m.learn = *head.Weight == 1
		}
		if head.Role == nil || head.Weight != nil || roleNamed(m.role) != m.role {
			if err := m.rename(head.From); err != nil {
				return nil, fmt.Errorf("message %d: %w", i+1, err)
			}
		}
		if m.role == "" {
			return nil, fmt.Errorf("message %d is no object with a role", i+1)
		}
		all = append(all, m)
	}
	return all, nil
}

// roleNamed maps ShareGPT's from and other names of roles to roles. Other values are returned unchanged.
func roleNamed(from string) string {
	switch from {
	case "human":
		return "user"
	case "ai", "gpt", "chatgpt", "bing", "bard", "model", "bot", "function_call":
		return "assistant"
	case "observation", "function_response":
		return "tool"
	}
	return from
}

// rename removes a message's weight and normalises its role. It converts from and value to role and content.
func (m *message) rename(from *string) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(m.text, &raw); err != nil {
		return err
	}
	all := map[string]any{}
	for name, value := range raw {
		all[name] = value
	}
	delete(all, "weight")
	if role := roleNamed(m.role); role != m.role {
		m.role = role
		all["role"] = role
	}
	if m.role == "" && from != nil {
		m.role = roleNamed(*from)
		value := given(raw["value"])
		if _, ok := raw["content"]; value == nil && !ok && raw["tool_calls"] == nil {
			return errors.New("it has no value, want an object with from and value, or with role and content")
		}
		delete(all, "from")
		delete(all, "value")
		all["role"] = m.role
		if value != nil {
			all["content"] = value
		}
		if calls := calls(value); *from == "function_call" && calls != nil {
			delete(all, "content")
			all["tool_calls"] = calls
		}
	}
	var err error
	m.text, err = json.Marshal(all)
	return err
}

// calls parses the value of a function_call: the text of an object with name and arguments, or of a list of them.
// It returns nil for anything else.
func calls(value json.RawMessage) []map[string]any {
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	if text = strings.TrimSpace(text); !strings.HasPrefix(text, "[") {
		text = "[" + text + "]"
	}
	var functions []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if strictjson.Unmarshal([]byte(text), &functions) != nil {
		return nil
	}
	var out []map[string]any
	for _, f := range functions {
		if f.Name == "" {
			return nil
		}
		out = append(out, map[string]any{"type": "function", "function": f})
	}
	return out
}
