package tokenizer

import (
	"strings"
	"time"
	"unicode"

	"github.com/gomoe/gomoe/tokenizer/internal/jinja"
)

// habits say which forms of messages a chat template renders. They are found by rendering short conversations.
type habits struct {
	system, developer bool   // it writes a first message of the role
	parts             bool   // it wants content as a list of parts
	textArguments     bool   // it wants the arguments of calls as a JSON text, which it joins to other texts
	anyText           bool   // it writes arguments that are a text as they stand
	nullContent       bool   // it writes the calls of a message only if its content is null
	emptyContent      bool   // it writes the calls of a message only if its content is a text, which may be empty
	header            string // the text that it writes before each turn of the model, "" if it is not known
}

// The words of the probes. An id has nine letters and digits, which Mistral's templates want.
const (
	probeText = "Qprobe7"
	probeKey  = "Kprobe7"
	probeID   = "abcDEF123"
)

// probe returns the habits of the template, which are found once. Probes have the variables that every conversation has.
func (t *chatTemplate) probe(variables *jinja.Dict) *habits {
	t.probed.Do(func() {
		p := probing{&dialogue{template: t, values: variables, now: time.Unix(0, 0)}}
		h := &t.habits
		if _, err := p.d.text([]*jinja.Dict{spoken("user", probeText)}, true); err != nil { // it may want tools
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

// calls finds what a template wants of calls: the first form that it renders with the name and the arguments.
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
		object := s != "" && !strings.Contains(s, "{'"+probeKey+"'") // as Python writes a dictionary
		if object || raw {
			h.nullContent, h.emptyContent = m == null, m != null && m != absent
			h.anyText, h.textArguments = object && raw, !object
			return
		}
	}
}

type probing struct{ d *dialogue }

// writes reports whether the text of messages has a word in it.
func (p probing) writes(word string, messages ...*jinja.Dict) bool {
	s, err := p.d.text(messages, true)
	return err == nil && strings.Contains(s, word)
}

// header returns the text before a turn of the model, without white space before it: what the prompt for an answer adds to the
// question, as far as it stands before an answer, too, whether the answer is the last message or not. A text that a
// question alone has is no header.
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

// parts returns a text as content in parts.
func parts(text string) any {
	part := jinja.NewDict()
	part.Set("type", "text")
	part.Set("text", text)
	return jinja.NewList(part)
}
