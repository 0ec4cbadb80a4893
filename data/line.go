package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/tokenizer"
)

// lists names the members that hold the messages of a conversation.
func lists() []string { return []string{"messages", "conversations", "conversation"} }

// pairs names the members that hold a question. Each is followed by the members that hold its answer, in order of
// precedence.
func pairs() [][]string {
	return [][]string{
		{"instruction", "output", "response"}, // Alpaca, Dolly
		{"prompt", "completion", "response"},
		{"question", "solution", "answer", "response"}, // LIMO, GSM8K, OpenOrca
		{"query", "response", "answer"},                // MetaMathQA, ms-swift
		{"problem", "solution", "answer"},              // NuminaMath
		{"inputs", "targets"},                          // FLAN, Aya
		{"input", "output"},
	}
}

// surroundings names the members that complete a conversation.
func surroundings() []string {
	return []string{"system", "system_prompt", "history", "input", "context", "tools", "functions", "chat_template_kwargs"}
}

// Kinds of lines, for errors.
const kinds = "text, prompt with completion, and messages (or ShareGPT's conversations, or a question with its answer, such as Alpaca's instruction with output)"

// notFinite stands for NaN and the infinities, which Python's json writes although JSON does not have them.
const notFinite = `"\u0000not a finite number"`

// finite replaces numbers that JSON does not have by notFinite.
func finite(s []byte) []byte {
	return regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?Infinity|NaN`).ReplaceAllFunc(s, func(part []byte) []byte {
		if part[0] == '"' {
			return part
		}
		return []byte(notFinite)
	})
}

// members holds the members of a JSON object.
type members map[string]json.RawMessage

// get decodes a member, if there is one, and names it in errors.
func (m members) get(name string, to any) error {
	if m[name] == nil {
		return nil
	}
	err := strictjson.Unmarshal(m[name], to)
	if e := (*strictjson.Error)(nil); errors.As(err, &e) && e.Path != "" {
		return fmt.Errorf("%s.%w", name, err)
	} else if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// words returns the text of a member, or nil if it is none.
func (m members) words(name string) *string {
	var s *string
	if json.Unmarshal(m[name], &s) != nil {
		return nil
	}
	return s
}

// list returns the elements of a member that is a list or the JSON text of one, or nil if it is none.
func (m members) list(name string) []json.RawMessage {
	v := m[name]
	if s := m.words(name); s != nil {
		v = json.RawMessage(*s)
	}
	var all []json.RawMessage
	if strictjson.Unmarshal(v, &all) != nil {
		return nil
	}
	return all
}

// empty reports whether a member is absent or says nothing.
func (m members) empty(name string) bool {
	return slices.Contains([]string{"", "null", "false", `""`, "[]", "{}"}, string(m[name]))
}

// parse returns the document of a JSON line. It ignores unknown members.
func parse(o Options, s []byte) (document, error) {
	var d document
	if !utf8.Valid(s) {
		return d, errors.New("not UTF-8")
	}
	var l members
	if err := strictjson.Unmarshal(s, &l); err != nil {
		if strictjson.Unmarshal(finite(s), &l) != nil {
			return d, err
		}
	}
	for _, name := range slices.Concat(lists(), surroundings(), []string{"prompt", "completion"}) {
		if v := l[name]; string(v) != notFinite && bytes.Contains(v, []byte(notFinite)) {
			return d, fmt.Errorf("%s: it has NaN or an infinity, which JSON does not have", name)
		}
	}
	for name, v := range l {
		if s := string(v); s == "null" || s == notFinite { // pandas writes NaN for a missing value
			delete(l, name)
		}
	}
	messages, is, err := l.conversation()
	if !is {
		var ask, reply string
		ask, reply, err = l.question()
		switch {
		case l["text"] != nil && ask != "instruction":
			if l["prompt"] != nil || l["completion"] != nil {
				return d, fmt.Errorf("more than one of %s", kinds)
			}
			var s string
			err = l.get("text", &s)
			return text(s), err
		case err != nil:
		case reply == "completion" && l.words("prompt") != nil:
			return l.completion()
		default:
			messages, err = l.answered(ask, reply)
		}
	}
	if err != nil {
		return d, err
	}
	tools, err := l.tools()
	if err != nil {
		return d, err
	}
	return conversation(o.Tokenizer, tokenizer.Conversation{Tools: tools, More: l["chat_template_kwargs"], Now: o.date()}, messages)
}

// tools returns the tools of a line: OpenAI's tools, or the older functions.
func (l members) tools() (json.RawMessage, error) {
	switch {
	case l.empty("functions"):
		return l["tools"], nil
	case !l.empty("tools"):
		return nil, errors.New("tools and functions: want one of them")
	}
	list := l.list("functions")
	if list == nil {
		return nil, errors.New("functions: want a list of functions, or its JSON text")
	}
	all := []any{}
	for _, f := range list {
		var tool struct {
			Type     string          `json:"type"`
			Function json.RawMessage `json:"function"`
		}
		if json.Unmarshal(f, &tool) != nil || tool.Function == nil {
			tool.Type, tool.Function = "function", f
		}
		all = append(all, tool)
	}
	return json.Marshal(all)
}

// rejected returns the error of a line that marks its answer as rejected, by the label of TRL or the kto_tag of
// LLaMA-Factory.
func (l members) rejected() error {
	for _, name := range []string{"label", "kto_tag"} {
		if string(l[name]) == "false" {
			return fmt.Errorf("%s: it is false for a rejected answer, which is not trained on; take the line out", name)
		}
	}
	return nil
}

// conversation returns the messages of a line that has a list of them, and whether it has one.
func (l members) conversation() (messages []message, is bool, err error) {
	var names []string
	for _, name := range lists() {
		if l[name] != nil && (name != "conversation" || len(names) == 0 && l.list(name) != nil) {
			names = append(names, name)
		}
	}
	switch {
	case len(names) == 0:
		return nil, false, nil
	case len(names) > 1 || l["completion"] != nil:
		return nil, true, fmt.Errorf("more than one of %s", kinds)
	case !l.empty("context"):
		return nil, true, fmt.Errorf("context: the conversation is in %s; write the context into one of its messages, or take it out", names[0])
	}
	if err := l.rejected(); err != nil {
		return nil, true, err
	}
	list := l.list(names[0])
	if list == nil {
		return nil, true, fmt.Errorf("%s: want a list of messages, or its JSON text", names[0])
	}
	messages, err = l.surrounded(read(list))
	return messages, true, err
}

// question returns the names of the members with the question and the answer of a line.
func (l members) question() (ask, reply string, err error) {
	var alone []string // questions without an answer
	for _, p := range pairs() {
		i := 1 + slices.IndexFunc(p[1:], func(name string) bool { return l[name] != nil })
		both := func(begin byte) bool { return l[p[0]][0] == begin && l[p[i]][0] == begin }
		switch name := p[0]; {
		case l[name] == nil:
		case i == 0:
			alone = append(alone, name)
		case name == "input" && (ask != "" || len(alone) > 0): // it belongs to another question
		case name == "prompt" && ask == "instruction" && l["completion"] == nil: // it repeats the instruction
		case both('"'), p[i] == "completion" && both('['):
			if ask != "" {
				return ask, reply, fmt.Errorf("%s with %s, and %s with %s: want one question with its answer", ask, reply, name, p[i])
			}
			ask, reply = name, p[i]
		case err == nil && name == "prompt" && p[i] == "completion":
			err = errors.New("prompt and completion: want two texts, or two lists of messages")
		case err == nil:
			err = fmt.Errorf("%s and %s: want two texts", name, p[i])
		}
	}
	switch other := slices.DeleteFunc(slices.Clone(alone), func(name string) bool { return l.empty(name) || name == "prompt" || name == "input" }); {
	case ask != "" && len(other) > 0:
		return ask, reply, fmt.Errorf("%s: it is a question next to %s with %s; want one question", other[0], ask, reply)
	case ask != "":
		return ask, reply, l.rejected()
	case err != nil:
		return "", "", err
	case l["chosen"] != nil || l["rejected"] != nil:
		return "", "", errors.New("chosen and rejected: pairs of preferred answers are not trained on; write the chosen one as messages, or as the completion of the prompt")
	case l["completion"] != nil:
		return "", "", errors.New("a completion without a prompt")
	case len(alone) > 0:
		i := slices.IndexFunc(pairs(), func(p []string) bool { return p[0] == alone[0] })
		return "", "", fmt.Errorf("%s: there is no answer, want %s", alone[0], strings.Join(pairs()[i][1:], " or "))
	}
	return "", "", fmt.Errorf("none of %s", kinds)
}

// completion returns the document of a prompt and a completion that are texts.
func (l members) completion() (document, error) {
	for _, name := range surroundings() {
		if !l.empty(name) {
			return document{}, fmt.Errorf("%s: a prompt and a completion that are texts have no conversation around them; write it into the prompt, or write messages", name)
		}
	}
	return answer(*l.words("prompt"), *l.words("completion")), nil
}

// answered returns the messages of a question and its answer. If they are lists of messages, only the answer is predicted.
func (l members) answered(ask, reply string) ([]message, error) {
	if reply == "completion" {
		if !l.empty("context") || !l.empty("input") {
			return nil, errors.New("context and input: the prompt is a list of messages; write them into one of it, or take them out")
		}
		after := l.list(reply)
		messages, err := l.surrounded(read(slices.Concat(l.list(ask), after)))
		for i := range max(0, len(messages)-len(after)) {
			messages[i].learn = false
		}
		return messages, err
	}
	var parts []string
	for _, name := range slices.Compact([]string{ask, "input", "context"}) {
		var s string
		if err := l.get(name, &s); err != nil {
			return nil, err
		}
		if s != "" {
			parts = append(parts, s)
		}
	}
	return l.surrounded([]message{said("user", strings.Join(parts, "\n")), said("assistant", *l.words(reply))}, nil)
}

// surrounded adds the system message and the history of a line to its messages.
func (l members) surrounded(messages []message, err error) ([]message, error) {
	if err != nil {
		return nil, err
	}
	var history [][]string
	if err := l.get("history", &history); err != nil {
		return nil, err
	}
	var earlier []message
	for i, h := range history {
		if len(h) != 2 {
			return nil, fmt.Errorf("history.%d: a list of %d texts, want a question and its answer", i, len(h))
		}
		earlier = append(earlier, said("user", h[0]), said("assistant", h[1]))
	}
	begins := func() bool { return len(messages) > 0 && messages[0].role == "system" }
	if begins() {
		messages = slices.Insert(messages, 1, earlier...)
	} else {
		messages = append(earlier, messages...)
	}
	for _, name := range []string{"system", "system_prompt"} {
		var s string
		if err := l.get(name, &s); err != nil {
			return nil, err
		}
		switch first := said("system", s); {
		case s == "":
		case !begins():
			messages = slices.Insert(messages, 0, first)
		case !sameText(messages[0], first):
			return nil, fmt.Errorf("%s: the conversation begins with another system message; take one of them out", name)
		}
	}
	return messages, nil
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
		m, err := readMessage(text)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		all = append(all, m)
	}
	return all, nil
}

func readMessage(text json.RawMessage) (m message, err error) {
	var all members
	if bytes.TrimSpace(text)[0] == '{' {
		err = strictjson.Unmarshal(text, &all)
	}
	var role, from string
	if err = errors.Join(err, all.get("role", &role), all.get("from", &from)); err != nil {
		return m, err
	}
	if role == "" && from == "" {
		return m, errors.New("it is no object with a role")
	}
	m = message{text: text, role: roleNamed(role)}
	changed := m.role != role
	if changed {
		all["role"], _ = json.Marshal(m.role)
	}
	if role == "" {
		if err := m.share(all, from); err != nil {
			return m, err
		}
		changed = true
	}
	switched, err := m.switches(all)
	if err == nil && (changed || switched) {
		m.text, err = json.Marshal(all)
	}
	return m, err
}

// switches reads and removes the members of a message that say whether it is predicted: OpenAI's weight, axolotl's
// train and training, and the loss of ms-swift and XTuner.
func (m *message) switches(all members) (found bool, err error) {
	weight := 1.0
	if err := all.get("weight", &weight); err != nil {
		return false, err
	}
	if weight != 0 && weight != 1 {
		return false, fmt.Errorf("weight %v, want 0 or 1", weight)
	}
	m.learn = weight == 1
	for _, name := range []string{"train", "training", "loss"} {
		var on *bool
		switch err := all.get(name, &on); {
		case err != nil:
			return false, err
		case on != nil && *on && m.role != "assistant":
			return false, fmt.Errorf("%s: true for the role %s, and only messages of the assistant are predicted", name, quoted.Text(m.role))
		}
		m.learn = m.learn && (on == nil || *on)
	}
	for _, name := range []string{"weight", "train", "training", "loss"} {
		found = found || all[name] != nil
		delete(all, name)
	}
	for _, name := range []string{"train_detail", "training_detail", "loss_scale", "loss_weight", "loss_mask", "mask", "masked"} {
		if !all.empty(name) {
			return false, fmt.Errorf("%s: a message is predicted as a whole or not at all; want weight 0 or 1 instead", name)
		}
	}
	return found, nil
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

// share converts ShareGPT's from and value to role and content.
func (m *message) share(all members, from string) (err error) {
	m.role = roleNamed(from)
	all["role"], _ = json.Marshal(m.role)
	value := all["value"]
	if string(value) == "null" {
		value = nil
	}
	if value == nil && all["content"] == nil && all["tool_calls"] == nil {
		return errors.New("it has no value, want an object with from and value, or with role and content")
	}
	delete(all, "from")
	delete(all, "value")
	if value != nil {
		all["content"] = value
	}
	if calls := calls(value); from == "function_call" && calls != nil {
		delete(all, "content")
		all["tool_calls"], err = json.Marshal(calls)
	}
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
