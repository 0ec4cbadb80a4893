package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/quoted"
)

// templated is the tokenizer of bytes with a template and two special tokens.
func templated(t testing.TB, template string) (*Tokenizer, error) {
	data, err := Bytes()
	require.NoError(t, err)
	tok, err := Parse(data)
	require.NoError(t, err)
	tok.written = []variable{{"bos_token", "<s>"}, {"eos_token", "</s>"}}
	return tok, tok.setTemplate("default", template)
}

// Templates make of conversations what apply_chat_template of transformers makes.
func TestTemplates(t *testing.T) {
	f, err := os.Open("testdata/templates.json.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var all struct {
		Conversations []map[string]json.RawMessage
		Cases         []struct {
			Name, Template string
			Results        []*string // nil: an error
		}
	}
	require.NoError(t, json.NewDecoder(z).Decode(&all))
	require.NotEmpty(t, all.Cases)
	for _, c := range all.Cases {
		tok, compileErr := templated(t, c.Template)
		require.Len(t, c.Results, len(all.Conversations))
		for i, want := range c.Results {
			if compileErr != nil {
				if want != nil {
					t.Errorf("%s: %v", c.Name, compileErr)
				}
				require.ErrorContains(t, compileErr, "line ")
				continue
			}
			in := all.Conversations[i]
			conv := Conversation{Messages: in["messages"], Tools: in["tools"], Generate: string(in["add_generation_prompt"]) == "true"}
			if v, ok := in["thinking"]; ok {
				conv.More = json.RawMessage(`{"thinking":` + string(v) + `}`)
			}
			got, err := tok.Template(conv)
			switch {
			case want == nil && err == nil:
				t.Errorf("%s: conversation %d: %q, want an error", c.Name, i, got)
			case want == nil:
				require.ErrorContains(t, err, "tokenizer: chat template: line ")
			case err != nil:
				t.Errorf("%s: conversation %d: %v", c.Name, i, err)
			case got != *want:
				t.Errorf("%s: conversation %d:\n%q, want\n%q", c.Name, i, got, *want)
			}
		}
	}
}

// What a template computes is bounded, and errors name its line.
func TestTemplateErrors(t *testing.T) {
	messages, err := Messages(Message{"user", "hi"})
	require.NoError(t, err)
	for _, c := range []struct{ template, want string }{
		{"a\n{{ raise_exception('roles must alternate') }}", "line 2: roles must alternate"},
		{"{% for i in range(1000000000000) %}{% endfor %}", "takes more than"},
		{"{% for i in range(100000) %}{% for i in range(100000) %}{% endfor %}{% endfor %}", "takes more than"},
		{"{% macro f(x) %}{{ f(x) }}{% endmacro %}\n{{ f(1) }}", "calls nest deeper than 100"},
		{"{{ 'a' * 1000000000000 }}", "takes more than"},
		{"{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "takes more than"},
		{"{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}", "takes more than"},
		{"{% set ns = namespace(l=[]) %}{% for i in range(200) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}", "deeper than 100"},
		{"{% set ns = namespace(l=[]) %}{% for i in range(200) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l | tojson }}", "deeper than 100"},
		{"{% set ns = namespace() %}{% set ns.n = ns %}{{ ns == ns.n }}", "deeper than 100"},
		{"{% for i in range(200000) %}{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' }}{% endfor %}", "the text is longer than"},
		{"{{ 'a'.replace('', 'x' * 1000000) * 100000 }}", "takes more than"},
		{"{% set ns = namespace(x=3) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}", "takes more than"},
		{"{{ 3 ** 100000000 }}", "a power of more than 65536 bits"},
		{"{{ 2 ** 30000 }}", "an integer of 9031 digits, want at most 4300 in a text"},
		{"{% set ns = namespace(t=(1,)) %}{% for i in range(60) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ {ns.t: 1} }}", "cannot be a key"},
		{"{{ [0] * 1000000000000 }}", "takes more than"},
		{"{{ '%1000000000d' % 1 }}", "a width or precision of more than 65536"},
		{"{{ '{:1000000000}'.format(1) }}", "a width or precision of more than 65536"},
		{"{{ 'a'.center(1000000000000) }}", "takes more than"},
		{"{{ 'a'.zfill(9 ** 30) }}", "takes more than"},
		{"{{ ('a b ' * 1000000)|wordwrap(100000000) }}", "takes more than"},
		{"{{ [1]|slice(1000000000)|list }}", "takes more than"},
		{"{{ [1]|batch(1000000000, 0)|list }}", "takes more than"},
		{"{{ '\t'.expandtabs(1000000000000) }}", "takes more than"},
		{"{{ range(0, 9 ** 18, 2 ** 62)|list|length }}{{ range(0, 9 ** 30) }}", "beyond 2^63"},
		{"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "calls nest deeper than 100"},
		{"{% block a %}{{ self.a() }}{% endblock %}", "calls nest deeper than 100"},
		{"{% macro f() %}{{ caller() }}{{ f() }}{% endmacro %}{% call f() %}{% call f() %}{% endcall %}{% endcall %}", "undefined"},
	} {
		tok, err := templated(t, c.template)
		require.NoError(t, err, c.template)
		_, err = tok.Template(Conversation{Messages: messages})
		require.ErrorContains(t, err, "tokenizer: chat template: line ", c.template)
		require.ErrorContains(t, err, c.want, c.template)
	}
	for _, c := range []struct{ template, want string }{
		{"\n\n{% if x %}", "line 3: the template ends, want {% elif or else or endif %}"},
		{"{% include '/etc/passwd' %}", `line 1: an unknown or misplaced statement "include"`},
		{"{% import 'x' as y %}", `an unknown or misplaced statement "import"`},
		{"{{ " + strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200) + " }}", "nests deeper than 100"},
		{strings.Repeat("{% if 1 %}", 200), "nests deeper than 100"},
		{"{{ 'a }}", "a string is not closed"},
		{"{{ 1", "a tag is not closed, want }}"},
		{"{# x", "a comment is not closed"},
		{"{% raw %}x", "raw without endraw"},
		{"{{ a ? b }}", `an unknown character "?"`},
		{"{% break %}", "break outside of a loop"},
		{strings.Repeat("x", 1<<20+1), "1048577 bytes, want at most 1048576"},
	} {
		_, err := templated(t, c.template)
		require.ErrorContains(t, err, c.want, quoted.Text(c.template))
	}
	tok, err := templated(t, "{{ messages }}")
	require.NoError(t, err)
	for _, c := range []struct {
		conversation Conversation
		want         string
	}{
		{Conversation{Messages: json.RawMessage("[")}, "tokenizer: template: messages: "},
		{Conversation{Messages: json.RawMessage("[] []")}, "more than one JSON value"},
		{Conversation{Messages: json.RawMessage(strings.Repeat("[", 200))}, "JSON nests deeper than 100"},
		{Conversation{Messages: messages, Tools: json.RawMessage("x")}, "tokenizer: template: tools: "},
		{Conversation{Messages: messages, More: json.RawMessage("[]")}, "tokenizer: template: more: want a JSON object"},
	} {
		_, err := tok.Template(c.conversation)
		require.ErrorContains(t, err, c.want)
	}
	tok.templates = nil
	_, err = tok.Template(Conversation{Messages: messages})
	require.ErrorContains(t, err, "the model has no chat template")
}

// strftime_now tells the time that the caller says.
func TestTemplateDate(t *testing.T) {
	tok, err := templated(t, "{{ strftime_now('%d %b %Y, %-d. %B %y %H:%M:%S %A %j %%') }}")
	require.NoError(t, err)
	got, err := tok.Template(Conversation{Messages: json.RawMessage("[]"), Now: time.Date(2026, 3, 5, 7, 8, 9, 0, time.UTC)})
	require.NoError(t, err)
	require.Equal(t, "05 Mar 2026, 5. March 26 07:08:09 Thursday 064 %", got)
}

// Templates come from tokenizer_config.json, chat_template.jinja and GGUF.
func TestOpenTemplates(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	data, err := Bytes()
	require.NoError(t, err)
	write("tokenizer.json", string(data))
	messages, err := Messages(Message{"user", "hi"})
	require.NoError(t, err)
	text := func(tools string) string {
		tok, err := Open(dir)
		require.NoError(t, err)
		c := Conversation{Messages: messages}
		if tools != "" {
			c.Tools = json.RawMessage(tools)
		}
		out, err := tok.Template(c)
		require.NoError(t, err)
		return out
	}
	write("tokenizer_config.json", `{"bos_token":"a","chat_template":"{{ bos_token }}:{{ messages[0].content }}"}`)
	require.Equal(t, "a:hi", text(""))
	write("tokenizer_config.json", `{"chat_template":[{"name":"default","template":"plain"},{"name":"tool_use","template":"{{ tools|length }} tools"}]}`)
	require.Equal(t, "plain", text(""))
	require.Equal(t, "2 tools", text("[{},{}]"))
	write("chat_template.jinja", "from the file {{ messages|length }}\n")
	require.Equal(t, "from the file 1", text(""))
	require.Equal(t, "from the file 1", text("[{}]"), "the file replaces all templates of tokenizer_config.json")
	write("chat_template.jinja", "\n{{ raise_exception('no') }}")
	tok, err := Open(dir)
	require.NoError(t, err)
	_, err = tok.Template(Conversation{Messages: messages})
	require.ErrorContains(t, err, "tokenizer: chat_template.jinja: chat template: line 2: ")

	// A template that cannot be read is an error where a template is needed, and nowhere else.
	broken := func(tok *Tokenizer, err error, want string) {
		t.Helper()
		require.NoError(t, err)
		ids, err := tok.Encode("hi", Options{})
		require.NoError(t, err)
		require.Equal(t, "hi", tok.Decode(ids))
		require.False(t, tok.HasTemplate())
		require.ErrorContains(t, tok.TemplateError(), want)
		_, err = tok.Template(Conversation{Messages: messages})
		require.ErrorContains(t, err, want)
		_, err = tok.Prompt(Conversation{Messages: messages})
		require.ErrorContains(t, err, want)
		_, _, err = tok.Turns(Conversation{Messages: messages})
		require.ErrorContains(t, err, want)
	}
	write("chat_template.jinja", "\n{% if %}")
	tok, err = Open(dir)
	broken(tok, err, filepath.Join(dir, "chat_template.jinja")+": chat template default: line 2: ")
	require.NoError(t, os.Remove(filepath.Join(dir, "chat_template.jinja")))
	for template, want := range map[string]string{
		`"{% include 'x' %}"`: `an unknown or misplaced statement "include"`,
		`"{{ 1"`:              "a tag is not closed",
		`7`:                   "chat_template: want a string, or a list of names and templates",
		`[{"name": "default", "template": "{{ 1 | nothing }}"}]`: `there is no filter "nothing"`,
	} {
		write("tokenizer_config.json", `{"chat_template": `+template+`}`)
		tok, err = Open(dir)
		broken(tok, err, "tokenizer_config.json: chat")
		require.ErrorContains(t, tok.TemplateError(), want)
	}
	write("tokenizer_config.json", `{"chat_template":{"default":"plain","tool_use":"{{ tools|length }} tools"}}`)
	require.Equal(t, "plain", text(""))
	require.Equal(t, "2 tools", text("[{},{}]"))
	for _, none := range []string{`""`, "null", `[{"name":"default","template":""}]`} {
		write("tokenizer_config.json", `{"chat_template":`+none+`}`)
		tok, err = Open(dir)
		require.NoError(t, err)
		require.ErrorIs(t, tok.TemplateError(), ErrNoTemplate)
	}
	write("tokenizer_config.json", `{"chat_template":"plain"}`)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "additional_chat_templates"), 0o755))
	write("additional_chat_templates/tool_use.jinja", "{{ tools|length }} more\n")
	write("additional_chat_templates/notes.txt", "{{")
	require.Equal(t, "plain", text(""))
	require.Equal(t, "1 more", text("[{}]"))
	tok, err = Open(dir)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"default": "plain", "tool_use": "{{ tools|length }} more\n"}, tok.TemplateSources())
	files, err := Files(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"additional_chat_templates/tool_use.jinja", "tokenizer.json", "tokenizer_config.json"}, slices.Sorted(maps.Keys(files)))

	// A GGUF file has all templates, and so has the folder made of it.
	g, err := ToGGUF(dir, tok.Size())
	require.NoError(t, err)
	keys := map[string]any{}
	for _, k := range g.Keys() {
		keys[k.Name] = k.Value
	}
	require.Equal(t, "plain", keys["tokenizer.chat_template"])
	require.Equal(t, []string{"tool_use"}, keys["tokenizer.chat_templates"])
	require.Equal(t, "{{ tools|length }} more\n", keys["tokenizer.chat_template.tool_use"])
	g, err = GGUFOf(func(key string) (any, bool) { v, ok := keys[key]; return v, ok })
	require.NoError(t, err)
	again, err := FromGGUF(g)
	require.NoError(t, err)
	require.Equal(t, tok.TemplateSources(), again.TemplateSources())
	files, err = g.Files()
	require.NoError(t, err)
	dir, old := t.TempDir(), dir
	for name, data := range files {
		write(name, string(data))
	}
	again, err = Open(dir)
	require.NoError(t, err)
	require.Equal(t, tok.TemplateSources(), again.TemplateSources())
	keys["tokenizer.chat_templates"] = "tool_use"
	_, err = GGUFOf(func(key string) (any, bool) { v, ok := keys[key]; return v, ok })
	require.EqualError(t, err, `tokenizer: GGUF: key "tokenizer.chat_templates" has a value of Go type string, want []string`)
	dir = old
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "additional_chat_templates")))
	write("tokenizer_config.json", `{"chat_template":[{"name":"default","template":"plain"},{"name":"tool_use","template":"{{"}]}`)
	tok, err = Open(dir)
	require.NoError(t, err)
	require.True(t, tok.HasTemplate())
	_, err = tok.Prompt(Conversation{Messages: messages, Tools: json.RawMessage(`[{}]`)})
	require.ErrorContains(t, err, "chat template tool_use: line 1: ")

	g = GGUF{Model: "gpt2", Pre: "gpt-2", Tokens: []string{"a"}, BOS: 0, EOS: -1, Unknown: -1, Pad: -1, Templates: map[string]string{"default": "{{ bos_token }}!{{ eos_token }}"}}
	tok, err = FromGGUF(g)
	require.NoError(t, err)
	got, err := tok.Template(Conversation{Messages: messages})
	require.NoError(t, err)
	require.Equal(t, "a!", got)
	g.Templates["default"] = "{{"
	tok, err = FromGGUF(g)
	require.NoError(t, err)
	require.ErrorContains(t, tok.TemplateError(), "tokenizer: chat template default: line 1: ")
}

func FuzzTemplate(f *testing.F) {
	f.Add("{% for m in messages %}{{ m.role | upper }}{% if loop.last %}{{ m['content'][1:] ~ 2 }}{% endif %}{% endfor %}", `[{"role":"user","content":"hi"}]`)
	f.Add("{%- macro f(a, b=1) -%}{% set x %}y{% endset %}{{ a + b }}{%- endmacro -%}{{ f(1, b=2) | tojson(indent=2) }}", `[]`)
	f.Fuzz(func(t *testing.T, template, messages string) {
		tok, err := templated(t, template)
		if err != nil {
			return
		}
		text, err := tok.Template(Conversation{Messages: json.RawMessage(messages)})
		if err == nil && len(text) > 8<<20 {
			t.Fatalf("%d bytes of text", len(text))
		}
	})
}
