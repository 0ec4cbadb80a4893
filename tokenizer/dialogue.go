package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/tokenizer/internal/jinja"
)

// MessageError reports an invalid message of a conversation.
type MessageError struct {
	Index int // index of the message, from 0
	Err   error
}

func (e *MessageError) Error() string { return fmt.Sprintf("message %d: %v", e.Index, e.Err) }

// Unwrap returns the reason.
func (e *MessageError) Unwrap() error { return e.Err }

// UnreadError reports a variable of a conversation that the chat template does not read.
type UnreadError struct{ Name string }

func (e *UnreadError) Error() string {
	return fmt.Sprintf("tokenizer: the chat template reads no %s, which would have no effect; leave it out", quoted.Text(e.Name))
}

// dialogue is a conversation converted to values of its template.
type dialogue struct {
	template *chatTemplate
	values   *jinja.Dict // all variables of the template except messages and add_generation_prompt
	messages []*jinja.Dict
	given    *jinja.Dict // tools and further variables of the conversation
	now      time.Time
	budget   *jinja.Budget // of all renderings
}

// maxRenderings bounds the time for finding the turns of a conversation, which takes several renderings for each
// message: those of about 2000 messages in the published templates.
const maxRenderings = 8

// dialogue reads a conversation and prepares its messages as transformers does.
func (t *Tokenizer) dialogue(c Conversation) (*dialogue, error) {
	d := &dialogue{now: c.Now, budget: jinja.NewBudget(maxRenderings)}
	if d.now.IsZero() {
		d.now = time.Now()
	}
	var tools, messages any
	for _, n := range []struct {
		name string
		data json.RawMessage
		to   *any
	}{{"messages", c.Messages, &messages}, {"tools", c.Tools, &tools}} {
		if n.data == nil {
			continue
		}
		v, err := jinja.Decode(n.data)
		if err != nil {
			return nil, fmt.Errorf("tokenizer: template: %s: %w", n.name, err)
		}
		*n.to = v
	}
	var err error
	if d.template, err = t.templateFor(tools); err != nil {
		return nil, err
	}
	d.values = t.variables(tools)
	d.given = jinja.NewDict()
	d.given.Set("tools", tools)
	if c.More != nil && string(c.More) != "null" {
		v, err := jinja.Decode(c.More)
		more, ok := v.(*jinja.Dict)
		if err != nil || !ok {
			return nil, errors.Join(errors.New("tokenizer: template: more: want a JSON object"), err)
		}
		own := []string{"messages", "tools"}
		for _, name := range more.TrueKeys() {
			if slices.Contains(own, name) {
				return nil, fmt.Errorf("tokenizer: template: further variables: %s is the conversation's own; give it there", name)
			}
		}
		more = more.Filter(func(name string, _ any) bool { return !slices.Contains(own, name) })
		d.values.Update(more)
		d.given.Update(more)
	}
	list, ok := jinja.Items(messages)
	if !ok && messages != nil {
		return nil, errors.New("tokenizer: template: messages: want a JSON list")
	}
	for i, v := range list {
		m, ok := v.(*jinja.Dict)
		if !ok {
			return nil, &MessageError{i, errors.New("it is no JSON object")}
		}
		d.messages = append(d.messages, reasoned(dense(m)))
	}
	return d, nil
}

// variables returns the variables of every template other than messages and add_generation_prompt.
func (t *Tokenizer) variables(tools any) *jinja.Dict {
	d := jinja.NewDict()
	for _, n := range t.written {
		d.Set(n.name, n.text)
	}
	d.Set("tools", tools)
	d.Set("documents", nil)
	return d
}

// dense returns a message without its null members.
func dense(m *jinja.Dict) *jinja.Dict {
	return m.Filter(func(_ string, v any) bool { return v != nil })
}

// reasoningNames lists the names of a message's reasoning.
func reasoningNames() []string { return []string{"reasoning_content", "thinking", "reasoning"} }

// reasoned returns a message with its reasoning, if any, under the names read by templates. See
// _alias_reasoning_fields in transformers' utils/chat_template_utils.py, which puts thinking first.
func reasoned(m *jinja.Dict) *jinja.Dict {
	for _, name := range reasoningNames() {
		reasoning, ok := m.Get(name)
		if !ok {
			continue
		}
		out := jinja.NewDict()
		out.Set("thinking", reasoning)
		out.Update(m)
		out.Set("reasoning_content", reasoning)
		return out
	}
	return m
}

// with returns a copy of a message with one member replaced.
func with(m *jinja.Dict, key string, value any) *jinja.Dict {
	out := jinja.NewDict()
	out.Update(m)
	out.Set(key, value)
	return out
}

// render returns the text of messages, and the parts that the template marks as the model's.
func (d *dialogue) render(messages []*jinja.Dict, generate bool) (string, [][2]int, error) {
	all := make([]any, len(messages))
	for i, m := range messages {
		all[i] = m
	}
	values := jinja.NewDict()
	values.Set("messages", jinja.NewList(all...))
	values.Set("add_generation_prompt", generate)
	values.Update(d.values)
	text, marked, err := d.template.Render(values, d.now, d.budget)
	if err == nil {
		return text, marked, nil
	}
	err = fmt.Errorf("chat template: %w", err)
	if path := d.template.path; path != "" {
		err = fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	err = fmt.Errorf("tokenizer: %w", err)
	if i := slices.IndexFunc(messages, func(m *jinja.Dict) bool { _, ok := m.Get("content"); return !ok && !calls(m) }); i >= 0 {
		err = &MessageError{i, fmt.Errorf("it has no content and calls no tool; want a content, which may be empty, if the model's template needs one: %w", err)}
	}
	return "", nil, err
}

func (d *dialogue) text(messages []*jinja.Dict, generate bool) (string, error) {
	text, _, err := d.render(messages, generate)
	return text, err
}

// Prompt returns the text of a conversation with messages in the forms used by clients of OpenAI's interface and by
// data sets. It is [Tokenizer.Template] after these changes:
//
//   - Content given as parts of type text is joined into one text.
//   - Tools, and the arguments of calls, may be JSON texts or values. The template gets
//     tools as values, and arguments in the form that it can render. Missing, empty and null
//     arguments become {}. An empty list of calls is removed, and an empty list of tools is none. OpenAI's older
//     forms become the newer ones: a function_call a list of one call, and the role function the role tool.
//   - The role developer becomes system, if the template knows only system.
//   - A message calling tools without content, or with null, gets the content with which the
//     template renders calls: none, null or an empty text, tried in this order.
//
// A message with a role other than user and assistant that the template omits is an error, and so are calls that it
// omits. Errors about one message are of type [MessageError]. Tools and further variables that the template does not
// read are an [UnreadError], unless they are null, false, empty or the text none.
func (t *Tokenizer) Prompt(c Conversation) (string, error) {
	d, err := t.plain(c, true)
	if err != nil {
		return "", err
	}
	return d.text(d.messages, c.Generate)
}

// plain reads a conversation in the forms accepted by Prompt. A request may not have further variables that the template
// leaves out. Data sets do, for templates of any kind.
func (t *Tokenizer) plain(c Conversation, request bool) (*dialogue, error) {
	tools, err := plainTools(c.Tools)
	if err != nil {
		return nil, err
	}
	c.Tools = tools
	d, err := t.dialogue(c)
	if err != nil {
		return nil, err
	}
	for _, name := range d.given.TrueKeys() {
		if value, _ := d.given.Get(name); (request || name == "tools") && value != "none" && !d.template.Reads(name) {
			return nil, &UnreadError{name}
		}
	}
	h := d.template.probe(t.variables(nil))
	for i, m := range d.messages {
		if d.messages[i], err = h.plain(m); err != nil {
			return nil, &MessageError{i, err}
		}
	}
	return d, d.complete(h)
}

// plainTools returns a list of tools as JSON values; nil if there are none. The list, or each tool, may be a JSON
// text.
func plainTools(data json.RawMessage) (json.RawMessage, error) {
	data = unquoted(data)
	if s := string(data); s == "" || s == "null" {
		return nil, nil
	}
	var all []json.RawMessage
	if err := strictjson.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("tokenizer: template: tools: want a list of tools, or its JSON text: %w", err)
	}
	if len(all) == 0 {
		return nil, nil
	}
	for i := range all {
		if all[i][0] != '"' {
			continue
		}
		if inner := unquoted(all[i]); len(inner) > 0 && inner[0] == '{' && json.Valid(inner) {
			all[i] = inner
		}
	}
	return json.Marshal(all)
}

// unquoted returns the text of a JSON string, and any other JSON value unchanged, without surrounding white space.
func unquoted(data json.RawMessage) json.RawMessage {
	var s string
	if json.Unmarshal(data, &s) == nil && string(data) != "null" {
		data = json.RawMessage(s)
	}
	return json.RawMessage(strings.TrimSpace(string(data)))
}

// plain converts a message for a template with these habits.
func (h *habits) plain(m *jinja.Dict) (*jinja.Dict, error) {
	role, _ := m.Get("role")
	name, ok := role.(string)
	if !ok || name == "" {
		text := ""
		if role != nil {
			text, _ = jinja.JSON(role)
		}
		return nil, fmt.Errorf("its role is %s, want a text", quoted.Plain(text))
	}
	switch {
	case name == "developer" && h.system && !h.developer:
		m = with(m, "role", "system")
	case name == "function":
		m = with(m, "role", "tool")
	}
	content, err := plainContent(m)
	if err != nil {
		return nil, err
	}
	if content == nil && h.emptyContent && calls(m) {
		content = new(string)
	}
	if content != nil {
		m = with(m, "content", *content)
		if h.parts {
			m = with(m, "content", parts(*content))
		}
	}
	if f, ok := m.Get("function_call"); ok { // older form of a single call
		if _, ok := m.Get("tool_calls"); !ok {
			call := jinja.NewDict()
			call.Set("type", "function")
			call.Set("function", f)
			m = with(m, "tool_calls", jinja.NewList(call))
		}
		m = m.Filter(func(key string, _ any) bool { return key != "function_call" })
	}
	v, ok := m.Get("tool_calls")
	if !ok {
		return m, nil
	}
	calls, ok := jinja.Items(v)
	if !ok {
		return nil, errors.New("its tool_calls are no list")
	}
	if len(calls) == 0 {
		return m.Filter(func(key string, _ any) bool { return key != "tool_calls" }), nil
	}
	out := make([]any, len(calls))
	for i, c := range calls {
		call, ok := c.(*jinja.Dict)
		if !ok {
			return nil, fmt.Errorf("call %d of its tool_calls is no object", i)
		}
		if out[i], err = h.call(call); err != nil {
			return nil, fmt.Errorf("call %d of its tool_calls: %w", i, err)
		}
	}
	m = with(m, "tool_calls", jinja.NewList(out...))
	if h.nullContent && (content == nil || *content == "") {
		m = with(m, "content", nil)
	}
	return m, nil
}

// calls reports whether a message calls tools.
func calls(m *jinja.Dict) bool {
	if _, ok := m.Get("function_call"); ok {
		return true
	}
	v, _ := m.Get("tool_calls")
	all, _ := jinja.Items(v)
	return len(all) > 0
}

// plainContent returns the text of a message's content, nil if it has none.
func plainContent(m *jinja.Dict) (*string, error) {
	v, ok := m.Get("content")
	if !ok {
		return nil, nil
	}
	if s, ok := v.(string); ok {
		return &s, nil
	}
	parts, ok := jinja.Items(v)
	if !ok {
		text, err := jinja.JSON(v)
		return nil, errors.Join(fmt.Errorf("its content is %s, want a text or a list of parts", quoted.Plain(text)), err)
	}
	var all strings.Builder
	for _, p := range parts {
		part, _ := p.(*jinja.Dict)
		if part == nil {
			return nil, errors.New("a part of its content is no object")
		}
		kind, _ := part.Get("type")
		text, _ := part.Get("text")
		s, ok := text.(string)
		if k, _ := kind.(string); k != "text" {
			return nil, fmt.Errorf("a part of its content is of type %s, want text", quoted.Text(k))
		}
		if !ok && text != nil {
			return nil, errors.New("a part of its content has a text that is no text")
		}
		all.WriteString(s)
	}
	s := all.String()
	return &s, nil
}

// call returns a call with arguments in the form that the template renders.
func (h *habits) call(call *jinja.Dict) (*jinja.Dict, error) {
	of, name := call, ""
	if v, ok := call.Get("function"); ok {
		if f, ok := v.(*jinja.Dict); ok {
			of, name = f, "function"
		}
	}
	v, _ := of.Get("arguments")
	if text, ok := v.(string); ok {
		value, err := jinja.Decode([]byte(text))
		switch {
		case strings.TrimSpace(text) == "" || err == nil && value == nil:
			v = nil
		case err != nil && !h.textArguments && !h.anyText:
			return nil, fmt.Errorf("its arguments are no JSON, which this model's chat template wants: %w", err)
		case err == nil && !h.textArguments:
			v = value
		}
	}
	if v == nil {
		v = jinja.NewDict()
	}
	if _, ok := v.(string); !ok && h.textArguments {
		s, err := jinja.JSON(v)
		if err != nil {
			return nil, err
		}
		v = s
	}
	of = with(of, "arguments", v)
	if name == "" {
		return of, nil
	}
	return with(call, name, of), nil
}

// complete returns an error if the template omits a message with a role that it may not know, or the calls of a message.
func (d *dialogue) complete(h *habits) error {
	mark := func(i int) string { return string(rune(0xf0000 + i%0xfffd)) } // from a private use area
	messages := slices.Clone(d.messages)                                   // with marks in contents, or in the names of called tools
	marked := map[int]func(*jinja.Dict, func(string) string) *jinja.Dict{} // the edits of messages
	for i, m := range d.messages {
		role, _ := m.Get("role")
		_, called := m.Get("tool_calls")
		switch {
		case called:
			marked[i] = editCalls
		case role == "user" || role == "assistant" || role == "system" && i == 0 && h.system || contentOf(m) == "":
			continue
		default:
			marked[i] = editContent
		}
		messages[i] = marked[i](m, func(s string) string { return s + mark(i) })
	}
	if len(marked) == 0 {
		return nil
	}
	whole, err := d.text(messages, true)
	if err != nil {
		return nil // rendering the messages themselves reports it
	}
	for _, i := range slices.Sorted(maps.Keys(marked)) {
		if strings.Contains(whole, mark(i)) {
			continue
		}
		// The template may transform the content or the names. In that case different ones give a different text.
		other, err := d.varied(messages, i, marked[i](messages[i], func(string) string { return "" }), true)
		if err != nil || other != whole {
			continue
		}
		if _, called := messages[i].Get("tool_calls"); called {
			return &MessageError{i, errors.New("the chat template leaves out the calls of this message; want a message without tool_calls, or a model with a template that writes them")}
		}
		role, _ := d.messages[i].Get("role")
		return &MessageError{i, fmt.Errorf("the chat template leaves out this message of the role %s; want a role that it writes here, such as user", quoted.Text(fmt.Sprint(role)))}
	}
	return nil
}

// varied returns the text of messages with message i replaced.
func (d *dialogue) varied(messages []*jinja.Dict, i int, other *jinja.Dict, generate bool) (string, error) {
	messages = slices.Clone(messages)
	messages[i] = other
	return d.text(messages, generate)
}

// added returns the text that the generation prompt adds after messages, or "" if prompt does not begin with their
// text.
func (d *dialogue) added(messages []*jinja.Dict, prompt string) string {
	alone, err := d.text(messages, false)
	added, ok := strings.CutPrefix(prompt, alone)
	if err != nil || !ok {
		return ""
	}
	return added
}

// contentOf returns the text of a message's content, or "" if it has none.
func contentOf(m *jinja.Dict) string {
	v, _ := m.Get("content")
	if parts, ok := jinja.Items(v); ok && len(parts) > 0 {
		if part, ok := parts[0].(*jinja.Dict); ok {
			v, _ = part.Get("text")
		}
	}
	s, _ := v.(string)
	return s
}

// said returns a message with its content replaced.
func said(m *jinja.Dict, text string) *jinja.Dict {
	v, _ := m.Get("content")
	if parts, ok := jinja.Items(v); ok && len(parts) > 0 {
		if part, ok := parts[0].(*jinja.Dict); ok {
			return with(m, "content", jinja.NewList(with(part, "text", text)))
		}
	}
	return with(m, "content", text)
}
