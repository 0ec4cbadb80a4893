package tokenizer

import (
	"strings"
	"time"
	"unicode"

	"github.com/gomoe/gomoe/tokenizer/internal/jinja"
)

// habits describes the forms of messages that a chat template renders, determined by rendering short conversations.
type habits struct {
	system, developer bool   // renders a first message of the role
	parts             bool   // requires content as a list of parts
	textArguments     bool   // requires the arguments of calls as JSON text, because it concatenates them with other text
	anyText           bool   // renders arguments that are text unchanged
	nullContent       bool   // renders the calls of a message only if its content is null
	emptyContent      bool   // renders the calls of a message only if its content is a text, which may be empty
	header            string // text rendered before each turn of the model; "" if unknown
}

// Texts used by probes. An id has nine letters and digits, as Mistral's templates require.
const (
	probeText = "Qprobe7"
	probeKey  = "Kprobe7"
	probeID   = "abcDEF123"
)

// probe returns the habits of the template, determining them once. variables are the variables present in every
// conversation.
func (t *chatTemplate) probe(variables *jinja.Dict) *habits {
	t.probed.Do(func() {
		p := probing{&dialogue{template: t, values: variables, now: time.Unix(0, 0)}}
		h := &t.habits
		if _, err := p.d.text([]*jinja.Dict{spoken("user", probeText)}, true); err != nil { // it may require tools
			p.d.values = with(variables, "tools", jinja.NewList(probeTool()))
		}
		h.parts = !p.writes(probeText, spoken("user", probeText)) && p.writes(probeText, spoken("user", parts(probeText)))
		say := func(role, text string) *jinja.Dict {
			if h.parts {
				return spoken(role, parts(text))
			}
			return spoken(role, text)
		}
		h.system = p.writes(probeText, say("system", probeText), say("user", "q"))
		h.developer = p.writes(probeText, say("developer", probeText), say("user", "q"))
		h.header = p.header(say("user", probeKey), say("assistant", probeText))
		h.calls(p, say)
	})
	return &t.habits
}

// calls determines how a template expects calls: the first form for which it renders the name and the arguments.
func (h *habits) calls(p probing, say func(role, text string) *jinja.Dict) {
	object := jinja.NewDict()
	object.Set(probeKey, probeText)
	text, err := jinja.JSON(object)
	if err != nil {
		return
	}
	absent := jinja.NewDict()
	absent.Set("role", "assistant")
	shown := func(m *jinja.Dict, arguments any) string {
		f := jinja.NewDict()
		f.Set("name", "f"+probeID)
		f.Set("arguments", arguments)
		call := jinja.NewDict()
		call.Set("id", probeID)
		call.Set("type", "function")
		call.Set("function", f)
		m = with(m, "tool_calls", jinja.NewList(call))
		result := with(with(say("tool", "r"), "tool_call_id", probeID), "name", "f"+probeID)
		for _, messages := range [][]*jinja.Dict{{say("user", "q"), m, result}, {say("user", "q"), m}} {
			s, err := p.d.text(messages, false)
			if err == nil && strings.Contains(s, "f"+probeID) && strings.Contains(s, probeKey) && strings.Contains(s, probeText) {
				return s
			}
		}
		return ""
	}
	null := with(absent, "content", nil)
	for _, m := range []*jinja.Dict{absent, null, say("assistant", "")} {
		s := shown(m, object)
		raw := strings.Contains(shown(m, text), text)
		object := s != "" && !strings.Contains(s, "{'"+probeKey+"'") // Python's notation of a dictionary
		if object || raw {
			h.nullContent, h.emptyContent = m == null, m != null && m != absent
			h.anyText, h.textArguments = object && raw, !object
			return
		}
	}
}

type probing struct{ d *dialogue }

// writes reports whether the text of messages contains a word.
func (p probing) writes(word string, messages ...*jinja.Dict) bool {
	s, err := p.d.text(messages, true)
	return err == nil && strings.Contains(s, word)
}

// header returns the text before a turn of the model, without leading white space: the part of the generation
// prompt that also precedes an answer, whether the answer is the last message or not. Text occurring after a
// question alone is not a header.
func (p probing) header(question, answer *jinja.Dict) string {
	prompt, _ := p.d.text([]*jinja.Dict{question}, true)
	header := strings.TrimLeftFunc(p.d.added([]*jinja.Dict{question}, prompt), unicode.IsSpace)
	for _, messages := range [][]*jinja.Dict{{question, answer}, {question, answer, question}} {
		if whole, err := p.d.text(messages, false); err == nil {
			before, _, _ := strings.Cut(whole, contentOf(answer))
			for !strings.Contains(before, header) {
				header = header[:wholeRunes(header, len(header)-1)]
			}
		}
	}
	if alone, _ := p.d.text([]*jinja.Dict{question}, false); strings.Contains(alone, header) {
		return ""
	}
	return header
}

func spoken(role string, content any) *jinja.Dict {
	m := jinja.NewDict()
	m.Set("role", role)
	m.Set("content", content)
	return m
}

// probeTool returns a tool without parameters.
func probeTool() *jinja.Dict {
	parameters := with(with(with(jinja.NewDict(), "type", "object"), "properties", jinja.NewDict()), "required", jinja.NewList())
	function := with(with(with(jinja.NewDict(), "name", "f"+probeID), "description", "q"), "parameters", parameters)
	return with(with(jinja.NewDict(), "type", "function"), "function", function)
}

// parts returns a text as content in the form of parts.
func parts(text string) any {
	part := jinja.NewDict()
	part.Set("type", "text")
	part.Set("text", text)
	return jinja.NewList(part)
}
