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

// Conversation is the input of a chat template.
type Conversation struct {
	// Messages is a JSON list of messages: objects with role, content, and other members used by the template, such as
	// tool_calls. [Messages] builds it from plain messages.
	Messages json.RawMessage
	// Tools is a JSON list of the tools available to the model; nil for none.
	Tools json.RawMessage
	// More is a JSON object of additional variables for the template, such as {"enable_thinking": false}; nil for
	// none.
	More json.RawMessage
	// Generate appends the generation prompt, which begins the model's turn.
	Generate bool
	// Now is the time shown to templates; zero means the time of the call.
	Now time.Time
}

// Message is a plain text message.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Messages returns plain text messages as a JSON list.
func Messages(all ...Message) (json.RawMessage, error) { return json.Marshal(all) }

// Template renders a conversation using the model's chat template, giving the result of apply_chat_template in
// transformers: null members of messages are removed, and reasoning is provided under each of the names
// reasoning_content, thinking and reasoning missing from the message. Encode the text with the option Bare, because
// it contains its special tokens. Errors name the line of the template and the reason: a template can reject a
// conversation, for instance if roles do not alternate. It is an error if the model has no chat template, or an
// invalid one. [Tokenizer.Prompt] accepts messages in further forms.
//
// Templates come with models and are not trusted: they cannot read files, and their time, memory and output are
// bounded.
func (t *Tokenizer) Template(c Conversation) (string, error) {
	d, err := t.dialogue(c)
	if err != nil {
		return "", err
	}
	return d.text(d.messages, c.Generate)
}

// ErrNoTemplate reports that the model has no chat template.
var ErrNoTemplate = errors.New("tokenizer: the model has no chat template; write the prompt as text")

// TemplateError returns the error that Template would return for every conversation: the model has no chat template
// ([ErrNoTemplate]), or an invalid one. It returns nil for a usable template.
func (t *Tokenizer) TemplateError() error {
	_, err := t.templateFor(nil)
	return err
}

// HasTemplate reports whether the model has a valid chat template, as required by Template.
func (t *Tokenizer) HasTemplate() bool { return t.TemplateError() == nil }

// TemplateSources returns the texts of the model's chat templates by name, including invalid ones.
func (t *Tokenizer) TemplateSources() map[string]string { return maps.Clone(t.sources) }

// chatTemplate is a compiled chat template, or the error of compiling it.
type chatTemplate struct {
	*jinja.Template
	err    error
	path   string // of its file; "" in a GGUF file
	probed sync.Once
	habits habits
}

// templateFor returns the template for a conversation with the given tools, nil for none.
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

// variable is a special token under its name in templates, such as bos_token.
type variable struct{ name, text string }

// setTemplate sets the template with the given name; an empty text is none. If the template is invalid, the error is
// also kept with it, and the tokenizer remains usable for everything except conversations.
func (t *Tokenizer) setTemplate(name, src string) error {
	if src == "" {
		return nil
	}
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

// namedTemplate is an element of the field chat_template of a tokenizer_config.json.
type namedTemplate struct {
	Name     string `json:"name"`
	Template string `json:"template"`
}

// setTemplates reads the field chat_template of a tokenizer_config.json: a template, or a list or an object of named
// templates.
func (t *Tokenizer) setTemplates(data json.RawMessage) {
	if s := strings.TrimSpace(string(data)); s == "" || s == "null" {
		return
	}
	var one string
	if json.Unmarshal(data, &one) == nil {
		_ = t.setTemplate("default", one) // the error is kept with the template
		return
	}
	var all []namedTemplate
	var byName map[string]string
	if json.Unmarshal(data, &byName) == nil {
		for name, src := range byName {
			_ = t.setTemplate(name, src)
		}
		return
	}
	if err := strictjson.Unmarshal(data, &all); err != nil {
		t.keepTemplate("default", &chatTemplate{err: fmt.Errorf("chat_template: want a string, or a list of names and templates: %w", err)})
	}
	for _, a := range all {
		_ = t.setTemplate(a.Name, a.Template)
	}
}
