package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomoe/gomoe/tokenizer/internal/jinja"
)

// Conversation is what a chat template makes a text of.
type Conversation struct {
	// Messages is a JSON list of messages: objects with role, content, and what else
	// the template uses, such as tool_calls. [Messages] makes it of plain messages.
	Messages json.RawMessage
	// Tools is a JSON list of the tools that the model may call; nil for none.
	Tools json.RawMessage
	// More is a JSON object of further variables of the template, such as
	// {"enable_thinking": false}; nil for none.
	More json.RawMessage
	// Generate ends the text with what begins the model's turn.
	Generate bool
	// Now is the time that templates can ask for. Zero means the time of the call.
	Now time.Time
}

// Message is a message of text.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Messages returns messages of text as a JSON list.
func Messages(all ...Message) (json.RawMessage, error) { return json.Marshal(all) }

// Template returns the text of a conversation as the model's chat template writes
// it, which is what apply_chat_template of transformers returns. Encode it with
// the option Bare, since the text has the special tokens that belong to it. Errors
// say which line of the template failed, and why: a template can refuse a
// conversation, for instance if roles do not alternate. A model without a chat
// template is an error.
//
// Templates come with models, from anywhere: they read no files, and their time,
// memory and text are bounded.
func (t *Tokenizer) Template(c Conversation) (string, error) {
	which := "default"
	if _, ok := t.templates["tool_use"]; ok && c.Tools != nil {
		which = "tool_use"
	}
	tmpl, ok := t.templates[which]
	if !ok {
		return "", errors.New("tokenizer: the model has no chat template; write the prompt as text")
	}
	values := jinja.NewDict()
	for _, n := range t.written {
		values.Set(n.name, n.text)
	}
	values.Set("tools", nil)
	values.Set("documents", nil)
	values.Set("add_generation_prompt", c.Generate)
	for _, n := range []struct {
		name string
		data json.RawMessage
	}{{"messages", c.Messages}, {"tools", c.Tools}} {
		if n.data == nil {
			continue
		}
		v, err := jinja.Decode(n.data)
		if err != nil {
			return "", fmt.Errorf("tokenizer: template: %s: %w", n.name, err)
		}
		values.Set(n.name, v)
	}
	if c.More != nil {
		v, err := jinja.Decode(c.More)
		more, ok := v.(*jinja.Dict)
		if err != nil || !ok {
			return "", errors.Join(errors.New("tokenizer: template: more: want a JSON object"), err)
		}
		values.Update(more)
	}
	now := c.Now
	if now.IsZero() {
		now = time.Now()
	}
	text, err := tmpl.Render(values, now)
	if err != nil {
		return "", fmt.Errorf("tokenizer: chat template: %w", err)
	}
	return text, nil
}

// HasTemplate reports whether the model has a chat template, without which Template is an error.
func (t *Tokenizer) HasTemplate() bool { return t.templates["default"] != nil }

// variable is a special token as templates name it, such as bos_token.
type variable struct{ name, text string }

// setTemplate sets the template of a name.
func (t *Tokenizer) setTemplate(name, src string) error {
	tmpl, err := jinja.Compile(src)
	if err != nil {
		return fmt.Errorf("chat template %s: %w", name, err)
	}
	if t.templates == nil {
		t.templates, t.sources = map[string]*jinja.Template{}, map[string]string{}
	}
	t.templates[name], t.sources[name] = tmpl, src
	return nil
}

// setTemplates reads the field chat_template of a tokenizer_config.json: a
// template, or a list of templates with names.
func (t *Tokenizer) setTemplates(data json.RawMessage) error {
	if s := strings.TrimSpace(string(data)); s == "" || s == "null" {
		return nil
	}
	var one string
	if json.Unmarshal(data, &one) == nil {
		return t.setTemplate("default", one)
	}
	var all []struct{ Name, Template string }
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("chat_template: want a string, or a list of names and templates: %w", err)
	}
	for _, a := range all {
		if err := t.setTemplate(a.Name, a.Template); err != nil {
			return err
		}
	}
	return nil
}
