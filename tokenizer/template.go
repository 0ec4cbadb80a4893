package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/gomoe/gomoe/internal/strictjson"
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
// it, which is what apply_chat_template of transformers returns: members of a
// message whose value is null are left out, and reasoning goes by each of the names
// reasoning_content, thinking and reasoning that the message has not. Encode the
// text with the option Bare, because it has the special tokens that belong to it.
// Errors say which line of the template failed, and why: a template can refuse a
// conversation, for instance if roles do not alternate. A model without a chat
// template, or with one that cannot be read, is an error. [Tokenizer.Prompt] takes
// messages of other forms, too.
//
// Templates come with models, from anywhere: they read no files, and their time,
// memory and text are bounded.
func (t *Tokenizer) Template(c Conversation) (string, error) {
	d, err := t.dialogue(c)
	if err != nil {
		return "", err
	}
	return d.text(d.messages, c.Generate)
}

// ErrNoTemplate says that the model has no chat template.
var ErrNoTemplate = errors.New("tokenizer: the model has no chat template; write the prompt as text")

// TemplateError returns why Template is an error for every conversation: the model
// has no chat template ([ErrNoTemplate]), or one that cannot be read. nil is a template that can be used.
func (t *Tokenizer) TemplateError() error {
	_, err := t.templateFor(nil)
	return err
}

// HasTemplate reports whether the model has a chat template that can be read,
// without which Template is an error.
func (t *Tokenizer) HasTemplate() bool { return t.TemplateError() == nil }

// TemplateSources returns the texts of the model's chat templates by their names, also of those that cannot be read.
func (t *Tokenizer) TemplateSources() map[string]string { return maps.Clone(t.sources) }

// chatTemplate is a chat template that was read, or why it was not.
type chatTemplate struct {
	*jinja.Template
	err     error
	located bool // err names the file
	probed  sync.Once
	habits  habits
}

// templateFor returns the template of a conversation with some tools, nil for none.
func (t *Tokenizer) templateFor(tools any) (*chatTemplate, error) {
	tmpl := t.templates["default"]
	if u, ok := t.templates["tool_use"]; ok && tools != nil {
		tmpl = u
	}
	switch {
	case tmpl == nil:
		return nil, ErrNoTemplate
	case tmpl.err != nil:
		return nil, fmt.Errorf("tokenizer: %w; mend the template, or write the prompt as text", tmpl.err)
	}
	return tmpl, nil
}

// variable is a special token as templates name it, such as bos_token.
type variable struct{ name, text string }

// setTemplate sets the template of a name. The error says why the template cannot
// be read. The tokenizer keeps it, and is usable for all but conversations.
func (t *Tokenizer) setTemplate(name, src string) error {
	tmpl, err := jinja.Compile(src)
	if err != nil {
		err = fmt.Errorf("chat template %s: %w", name, err)
	}
	if t.sources == nil {
		t.sources = map[string]string{}
	}
	t.sources[name] = src
	t.keepTemplate(name, &chatTemplate{Template: tmpl, err: err})
	return err
}

func (t *Tokenizer) keepTemplate(name string, tmpl *chatTemplate) {
	if t.templates == nil {
		t.templates = map[string]*chatTemplate{}
	}
	t.templates[name] = tmpl
}

// setTemplates reads the field chat_template of a tokenizer_config.json: a
// template, or a list of templates with names.
func (t *Tokenizer) setTemplates(data json.RawMessage) {
	if s := strings.TrimSpace(string(data)); s == "" || s == "null" {
		return
	}
	var one string
	if json.Unmarshal(data, &one) == nil {
		_ = t.setTemplate("default", one) // is kept with the template
		return
	}
	var all []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := strictjson.Unmarshal(data, &all); err != nil {
		t.keepTemplate("default", &chatTemplate{err: fmt.Errorf("chat_template: want a string, or a list of names and templates: %w", err)})
	}
	for _, a := range all {
		_ = t.setTemplate(a.Name, a.Template)
	}
}
