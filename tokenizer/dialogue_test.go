package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Members whose value is null are as if they were not there, and reasoning goes by all names that templates read. The
// texts are those of apply_chat_template of transformers 5.24.
func TestNullsAndReasoning(t *testing.T) {
	const template = `{% for m in messages %}{{ m.keys()|join(',') }}:{{ m.content|default('none') }}:{{ 'name' in m }}{{ m.reasoning_content }}|{{ m.thinking }}|{{ m.reasoning }};{% endfor %}`
	tok, err := templated(t, template)
	require.NoError(t, err)
	for messages, want := range map[string]string{
		`{"role": "a", "content": null, "name": null}`:                          "role:none:False||;",
		`{"content": "x", "role": "a", "tool_calls": null}`:                     "content,role:x:False||;",
		`{"role": "a", "reasoning": "r"}`:                                       "thinking,role,reasoning,reasoning_content:none:Falser|r|r;",
		`{"role": "a", "thinking": "t"}`:                                        "thinking,role,reasoning_content:none:Falset|t|;",
		`{"role": "a", "reasoning_content": "c"}`:                               "thinking,role,reasoning_content:none:Falsec|c|;",
		`{"role": "a", "thinking": "t", "reasoning_content": "c"}`:              "thinking,role,reasoning_content:none:Falsec|t|;",
		`{"role": "a", "reasoning_content": null, "thinking": "", "name": "n"}`: "thinking,role,name,reasoning_content:none:True||;",
	} {
		for _, f := range []func(Conversation) (string, error){tok.Template, tok.Prompt} {
			got, err := f(Conversation{Messages: json.RawMessage("[" + messages + "]")})
			require.NoError(t, err)
			require.Equal(t, want, got, messages)
		}
	}
}

// Calls are written with the kind of arguments, and of content, that a template renders.
func TestCalls(t *testing.T) {
	const head = `{% for m in messages %}{% if m.role == 'assistant' %}`
	const tail = `{% else %}{{ m.role + ':' + m.content + ';' }}{% endif %}{% endfor %}`
	object := head + `{{ (m.content or '') }}{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments|tojson }}{% endfor %}` + tail
	for name, c := range map[string]struct {
		template string
		want     map[string]string // by the arguments
	}{
		"object": {object, map[string]string{
			`{"b": 1, "a": [2.0]}`: `f{"b": 1, "a": [2.0]}`, `"{\"b\": 1,\"a\":[2.0]}"`: `f{"b": 1, "a": [2.0]}`, `"[1]"`: "f[1]",
			`""`: "f{}", `" "`: "f{}", `"null"`: "f{}", `" null "`: "f{}", `null`: "f{}", ``: "f{}", `"{}"`: "f{}", `"{"`: "! no JSON",
		}},
		"items": {head + `{% for c in m.tool_calls or [] %}{{ c.function.name }}{% for k, v in c.function.arguments.items() %}<{{ k }}={{ v }}>{% endfor %}{% endfor %}` + tail, map[string]string{
			`{"b": 1}`: "f<b=1>", `"{\"b\": 1}"`: "f<b=1>", `""`: "f", ``: "f", `"{"`: "! no JSON",
		}},
		"text": {head + `{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments }}{% endfor %}` + tail, map[string]string{
			`{"b": 1, "a": ["é"]}`: `f{"b": 1, "a": ["é"]}`, `"{\"b\":1}"`: `f{"b":1}`, `" "`: "f{}", `null`: "f{}", `"null"`: "f{}", ``: "f{}", `"{"`: "f{",
		}},
		"text that Python shows": {head + `{% for c in m.tool_calls or [] %}{{ c.function.name ~ c.function.arguments }}{% endfor %}` + tail, map[string]string{
			`{"b": 1}`: `f{"b": 1}`, `"{\"b\":1}"`: `f{"b":1}`, ``: "f{}",
		}},
		"both": {head + `{% for c in m.tool_calls or [] %}{{ c.function.name }}{% if c.function.arguments is string %}{{ c.function.arguments }}{% else %}{{ c.function.arguments|tojson }}{% endif %}{% endfor %}` + tail, map[string]string{
			`{"b": 1}`: `f{"b": 1}`, `"{\"b\":1}"`: `f{"b": 1}`, `"{"`: "f{", `""`: "f{}",
		}},
		"null content and text": {head + `{% if m.content is none %}{% for c in m.tool_calls %}{{ c.function.name + c.function.arguments }}{% endfor %}{% else %}{{ 'answer:' + m.content }}{% endif %}` + tail, map[string]string{
			`{"b": 1}`: `f{"b": 1}`, `"{\"b\":1}"`: `f{"b":1}`, ``: "f{}",
		}},
		"content that is a text": {head + `{{ m.content.strip() }}{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments|tojson }}{% endfor %}` + tail, map[string]string{
			`{"b": 1}`: `f{"b": 1}`, `"{\"b\":1}"`: `f{"b": 1}`, ``: "f{}", `"{"`: "! no JSON",
		}},
		"content that is there": {head + `{% if m.content is defined and m.content is not none %}{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments }}{% endfor %}{% endif %}` + tail, map[string]string{
			`{"b": 1}`: `f{"b": 1}`, ``: "f{}",
		}},
	} {
		tok, err := templated(t, c.template)
		require.NoError(t, err)
		for arguments, want := range c.want {
			for _, content := range []string{"", `"content": null, `, `"content": "", `} {
				member := ""
				if arguments != "" {
					member = `, "arguments": ` + arguments
				}
				got, err := tok.Prompt(Conversation{Messages: json.RawMessage(`[{"role": "user", "content": "q"}, {"role": "assistant", ` + content + `"tool_calls": [{"type": "function", "function": {"name": "f"` + member + `}}]}]`)})
				if after, ok := strings.CutPrefix(want, "!"); ok {
					require.ErrorContains(t, err, "message 1: call 0 of its tool_calls: its arguments are"+after, name)
					continue
				}
				require.NoError(t, err, name)
				require.Equal(t, strings.Replace("user:q;"+want, "user:q;assistant", "user:q;assistant", 1), got, "%s: %s %s", name, content, arguments)
			}
		}
	}
}

// Calls, tools and further variables that a template leaves out are errors in a request, unless they are null, false or empty.
// Data sets have them for templates of any kind.
func TestLeftOut(t *testing.T) {
	const call = `[{"role": "user", "content": "q"}, {"role": "assistant", %s"tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]}]`
	const said = `[{"role": "user", "content": "q"}]`
	const plain = `{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}`
	for _, c := range []struct{ template, messages, tools, more, want string }{
		{plain, fmt.Sprintf(call, ""), "", "", "message 1: the chat template leaves out the calls of this message"},
		{plain, fmt.Sprintf(call, `"content": "a", `), "", "", "message 1: the chat template leaves out the calls of this message"},
		{`{% for m in messages %}{{ m|tojson(ensure_ascii=true) }}{% endfor %}`, fmt.Sprintf(call, ""), "", "", ""},
		{`{{ messages }}`, fmt.Sprintf(call, ""), "", "", ""},
		{plain, said, `[{"type": "function"}]`, "", `the chat template reads no "tools", which would have no effect; leave it out`},
		{plain, said, `[]`, `{"a": null, "b": false, "c": "", "d": [], "e": {}, "f": 0}`, ""},
		{plain, said, "", `{"thinking": true}`, `the chat template reads no "thinking"`},
		{plain + `{{ tools }}{% if thinking is defined and thinking %}!{% endif %}`, said, `[{"type": "function"}]`, `{"thinking": true}`, ""},
		{plain + `{% macro m() %}{{ tools }}{% endmacro %}{{ m() }}{% set thinking = thinking | default(false) %}`, said, `[{"type": "function"}]`, `{"thinking": true}`, ""},
	} {
		tok, err := templated(t, c.template)
		require.NoError(t, err)
		talk := Conversation{Messages: json.RawMessage(c.messages), Tools: json.RawMessage(c.tools), More: json.RawMessage(c.more)}
		if c.more == "" {
			talk.More = nil
		}
		_, err = tok.Prompt(talk)
		if c.want == "" {
			require.NoError(t, err, c)
		} else {
			require.ErrorContains(t, err, c.want)
		}
		_, _, err = tok.Turns(talk)
		if c.want == "" || strings.Contains(c.want, "thinking") { // a data set serves templates with and without thinking
			require.NoError(t, err, c)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}

// A function_call is one call, and the role function is the role tool.
func TestFunctionCall(t *testing.T) {
	tok, err := templated(t, `{% for m in messages %}{{ m.role }}:{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments|tojson }}{% endfor %}{% if m.role == 'tool' %}{{ m.content }}{% endif %}{{ 'function_call' in m }};{% endfor %}`)
	require.NoError(t, err)
	got, err := tok.Prompt(Conversation{Messages: json.RawMessage(`[{"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"a\": 1}"}}, {"role": "function", "name": "f", "content": "r"}, {"role": "assistant", "content": "b", "function_call": null}]`)})
	require.NoError(t, err)
	require.Equal(t, `assistant:f{"a": 1}False;tool:rFalse;assistant:False;`, got)
}

// If a template fails for a message without content, the error names the message.
func TestNoContent(t *testing.T) {
	tok, err := templated(t, `{% for m in messages %}{{ m.role + ':' + m.content }}{% endfor %}`)
	require.NoError(t, err)
	for _, content := range []string{"", `, "content": null`} {
		_, err = tok.Prompt(Conversation{Messages: json.RawMessage(`[{"role": "user", "content": "q"}, {"role": "assistant"` + content + `}]`)})
		require.EqualError(t, err, `message 1: it has no content and calls no tool; want a content, which may be empty, if the model's template needs one: tokenizer: chat template: line 1: a string + the undefined "content": want two numbers, two strings or two lists`)
	}
	_, err = tok.Prompt(Conversation{Messages: json.RawMessage(`[{"role": "user", "content": "q"}, {"content": "b"}]`)})
	require.ErrorContains(t, err, "message 1: its role is")
}

// Instructions of the role developer are in the prompt, and a message that a template leaves out is an error.
func TestRoles(t *testing.T) {
	const (
		listed   = `{% for m in messages %}{% if m.role in ['user', 'system', 'assistant'] %}{{ m.role }}:{{ m.content }};{% endif %}{% endfor %}`
		any      = `{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}`
		first    = `{% if messages[0].role == 'developer' %}{{ 'dev:' + messages[0].content + ';' }}{% endif %}{% for m in messages if m.role in ['user', 'assistant'] %}{{ m.role }}:{{ m.content }};{% endfor %}`
		refusing = `{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}{{ raise_exception('roles: user and assistant') }}{% endif %}{{ m.content }};{% endfor %}`
		none     = `{% for m in messages if m.role in ['user', 'assistant'] %}{{ m.role }}:{{ m.content }};{% endfor %}`
		escaped  = `{% for m in messages %}{{ m.role }}:{{ m.content|tojson(ensure_ascii=true) }};{% endfor %}`
	)
	for _, c := range []struct{ template, roles, want string }{
		{listed, "developer user", "system:0;user:1;"},
		{listed, "system developer user", "system:0;system:1;user:2;"},
		{listed, "user developer", "user:0;system:1;"},
		{any, "developer user", "developer:0;user:1;"},
		{any, "critic user tool", "critic:0;user:1;tool:2;"},
		{first, "developer user", "dev:0;user:1;"},
		{escaped, "developer critic", `developer:"0";critic:"1";`},
		{first, "user developer user", `! message 1: the chat template leaves out this message of the role "developer"`},
		{first, "system user", `! message 0: the chat template leaves out this message of the role "system"`},
		{refusing, "developer user", "! roles: user and assistant"},
		{none, "developer user", `! message 0: the chat template leaves out this message of the role "developer"`},
		{listed, "user tool", `! message 1: the chat template leaves out this message of the role "tool"`},
		{listed, "user critic", `! message 1: the chat template leaves out this message of the role "critic"`},
	} {
		tok, err := templated(t, c.template)
		require.NoError(t, err)
		var all []Message
		for i, role := range strings.Fields(c.roles) {
			all = append(all, Message{role, string(rune('0' + i))})
		}
		messages, err := Messages(all...)
		require.NoError(t, err)
		got, err := tok.Prompt(Conversation{Messages: messages})
		if after, ok := strings.CutPrefix(c.want, "! "); ok {
			require.ErrorContains(t, err, after, c.roles)
			continue
		}
		require.NoError(t, err, c.roles)
		require.Equal(t, c.want, got)
	}
}

// A template that reads content in parts gets parts.
func TestPartsForTemplate(t *testing.T) {
	tok, err := templated(t, `{% for m in messages %}{{ m.role }}:{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %};{% endfor %}`)
	require.NoError(t, err)
	got, err := tok.Prompt(Conversation{Messages: json.RawMessage(`[{"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}]`)})
	require.NoError(t, err)
	require.Equal(t, "system:a;user:bc;", got)
}

// Turns of messages of the role assistant in a row do not overlap if a token ends the last message only in one of the compared texts.
// The time for finding turns is bounded, since it grows with the square of their number.
func TestTurnsOfLongConversation(t *testing.T) {
	tok, err := templated(t, "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
	require.NoError(t, err)
	long := func(n int) Conversation {
		pair := `{"role":"user","content":"a"},{"role":"assistant","content":"b"},`
		return Conversation{Messages: json.RawMessage("[" + strings.TrimSuffix(strings.Repeat(pair, n), ",") + "]")}
	}
	_, turns, err := tok.Turns(long(300))
	require.NoError(t, err)
	require.Len(t, turns, 300)
	_, _, err = tok.Turns(long(1500))
	require.ErrorContains(t, err, "a conversation of 3000 messages, whose turns take too long to find in its text; divide it into shorter ones")
	text, err := tok.Prompt(long(1500))
	require.NoError(t, err)
	require.Len(t, text, len("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n")*1500)
}

func TestTurnsInARow(t *testing.T) {
	tok, err := templated(t, `{% for m in messages %}<{{ m.role }}>{{ '\n' + m.content }}{% if m.role == 'assistant' and not loop.last %}{{ '\n</s>\n' }}{% endif %}{{ '\n' if not loop.last }}{% endfor %}{% if add_generation_prompt %}{{ '\n<assistant>\nHere I think' }}{% endif %}`)
	require.NoError(t, err)
	id := int32(tok.Size())
	tok.special[id] = true
	require.NoError(t, tok.vocab.set("</s>", id, tok.Size()))
	messages, err := Messages(Message{"user", "a"}, Message{"assistant", "b"}, Message{"assistant", "c"})
	require.NoError(t, err)
	text, turns, err := tok.Turns(Conversation{Messages: messages})
	require.NoError(t, err)
	require.Len(t, turns, 2)
	require.LessOrEqual(t, turns[0].End, turns[1].Start)
	require.Equal(t, "b\n</s>", text[turns[0].Start:turns[0].End])
	require.True(t, strings.HasSuffix(text[turns[1].Start:turns[1].End], "c"))
}

// Turns are what the template marks, or what is found by comparing texts; both end with a special token if there is one.
func TestTurns(t *testing.T) {
	for name, c := range map[string]struct {
		template string
		want     []string
		open     bool
	}{
		"marked":                 {`{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}</s>{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}`, []string{"b</s>", "d</s>"}, false},
		"marked without its end": {`{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{{ '</s>' }}{% else %}{{ m.content }}{% endif %}{% endfor %}`, []string{"b</s>", "d</s>"}, false},
		"marked in parts":        {`{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{{ '~' }}{% generation %}{{ '</s>' }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}`, []string{"b", "</s>", "d", "</s>"}, false},
		"no prompt":              {`{% for m in messages %}{{ m.role }}:{{ m.content }}</s>{% endfor %}`, []string{"assistant:b</s>", "assistant:d</s>"}, false},
		"length":                 {`{{ messages|length }}{% for m in messages %}{{ m.role }}:{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}`, []string{"b</s>", "d</s>"}, false},
		"next role":              {`{% for m in messages %}{% if m.role == 'user' %}<s>{% endif %}{{ m.role }}:{{ m.content }}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}`, []string{"b<s>", "d"}, true},
		"header after the end":   {`{% for m in messages %}<s>{{ m.role }}:{{ m.content }}<r></s>{% endfor %}<s>assistant:`, []string{"b<r></s>", "d<r></s>"}, false},
		"last is other":          {`{% for m in messages %}{{ m.role }}:{{ '(' if loop.last and m.role == 'assistant' }}{{ m.content }}{{ '</s>' if loop.last else '<s>' }}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}`, []string{"b<s>", "(d</s>"}, false},
	} {
		tok, err := templated(t, c.template)
		require.NoError(t, err)
		for _, s := range []string{"<s>", "</s>"} {
			id := int32(tok.Size())
			tok.special[id] = true
			require.NoError(t, tok.vocab.set(s, id, tok.Size()))
			tok.named.EOS = id
		}
		messages, err := Messages(Message{"user", "a"}, Message{"assistant", "b"}, Message{"user", "c"}, Message{"assistant", "d"})
		require.NoError(t, err)
		text, turns, err := tok.Turns(Conversation{Messages: messages})
		require.NoError(t, err, name)
		whole, err := tok.Template(Conversation{Messages: messages})
		require.NoError(t, err)
		require.Equal(t, whole, text)
		var got []string
		for i, turn := range turns {
			got = append(got, text[turn.Start:turn.End])
			require.Equal(t, 1+2*(i*2/len(turns)), turn.Message)
			require.Equal(t, c.open && i == len(turns)-1, turn.Open, name)
		}
		require.Equal(t, c.want, got, name)
	}
}

// Turns do not have the header that the template writes before them, whatever messages come before, and they have all that the
// template writes of a message: also words that it writes after a later message.
func TestTurnParts(t *testing.T) {
	const (
		called  = `{"role": "assistant", "content": "b", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]}, {"role": "tool", "content": "r"}`
		calls   = `{% for c in m.tool_calls or [] %}{{ '<call>' + c.function.name }}{% endfor %}`
		inARow  = `{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "assistant", "content": "d"}`
		two     = `{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}`
		unasked = `{% if add_generation_prompt and messages[-1].role != 'assistant' %}{{ '<h>model\n' }}{% endif %}`
		written = `{{ '<h>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content + '</s>\n' }}`
	)
	for name, c := range map[string]struct {
		template, messages string
		want               []string
	}{
		"words after a response": {`{% for m in messages %}{% if m.role == 'assistant' %}{% if messages[loop.index0 - 1].role != 'tool' %}{{ '<h>' }}{% endif %}` + calls + `{% set next = messages[loop.index] if not loop.last else none %}{% if next and next.role == 'tool' %}{{ '<answer>' + next.content + '</answer>' }}{% endif %}{% if m.reasoning_content %}{{ m.reasoning_content + ';' }}{% endif %}{{ m.content + '</s>' if m.content }}{% elif m.role != 'tool' %}{{ '<h>' + m.content + '</s>' }}{% endif %}{% endfor %}{% if add_generation_prompt and messages[-1].role != 'tool' %}{{ '<h>' }}{% endif %}`,
			`{"role": "user", "content": "a"}, ` + called + `, {"role": "assistant", "content": "d"}`, []string{"1 <call>f<answer>", "1 b</s>", "3 d</s>"}},
		"a header after EOS": {`{% for m in messages %}{% if m.role == 'assistant' %}{% if m.tool_calls %}{{ '<h>' }}` + calls + `{{ '</s>' }}{% endif %}{{ '<h>' + m.content + '</s>' }}{% else %}{{ '<' + m.role + '>' + m.content }}{% endif %}{% endfor %}{{ '<h>' if add_generation_prompt }}`,
			`{"role": "user", "content": "a"}, ` + called, []string{"1 <call>f</s>", "1 b</s>"}},
		"no prompt after an answer": {`{% for m in messages %}` + written + `{% endfor %}` + unasked, inARow, []string{"1 b</s>", "2 d</s>"}},
		"an answer first":           {`{% if messages[0].role != 'system' %}{{ '<h>system\nS</s>\n' }}{% endif %}{% for m in messages %}` + written + `{% endfor %}` + unasked, `{"role": "assistant", "content": "b"}, ` + inARow, []string{"0 b</s>", "2 b</s>", "3 d</s>"}},
		"a prompt with more":        {`{% for m in messages %}` + written + `{% endfor %}{{ '<h>model\nI think' if add_generation_prompt }}`, inARow, []string{"1 b</s>", "2 d</s>"}},
		"a last answer that is dropped": {`{% for m in messages %}{% if m.content or not loop.last %}` + written + `{% endif %}{% endfor %}{{ '<h>model\n' if add_generation_prompt }}`,
			`{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}`, []string{"1 </s>", "3 b</s>"}},
		"thoughts of the last answer": {`{% for m in messages %}{{ '<h>' + m.role + '\n' }}{% if m.role == 'assistant' and loop.last %}{{ '<think>\n' }}{% endif %}{{ m.content }}{% if not (add_generation_prompt and loop.last and m.role == 'assistant') %}{{ '</s>\n' }}{% endif %}{% endfor %}{{ '<h>assistant\n<think>\n' if add_generation_prompt and messages[-1].role != 'assistant' }}`,
			inARow + ", " + two, []string{"1 b</s>", "2 d</s>", "4 b</s>", "6 b</s>"}},
		"an id of earlier calls": {`{% for m in messages %}{{ '<h>' + m.role + '\n' + m.content }}{% for c in m.tool_calls or [] %}{{ '<call>' + c.function.name + (']' if loop.last and m == messages[-1] else ', id]') }}{% endfor %}{{ '</s>' if m != messages[-1] }}{% endfor %}{{ '<h>assistant\n' if add_generation_prompt }}`,
			`{"role": "user", "content": "a"}, ` + called + `, {"role": "assistant", "content": "d"}`, []string{"1 b<call>f, id]</s>", "3 d"}},
		"no words, another end": {`{% for m in messages %}{{ '<h>' + m.role + '<r>' + m.content + ('<answer>' if loop.last else '</answer>') }}{% endfor %}{{ '<h>assistant' if add_generation_prompt }}`,
			`{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}, ` + inARow, []string{"1 <r></answer>", "3 <r>b</answer>", "4 <r>d<answer>"}},
		"calls that begin as the prompt": {`{% for m in messages %}{{ '<h>' + m.role + '\n' }}{% for c in m.tool_calls or [] %}{{ '<plot>' + c.function.name }}{% endfor %}{{ m.content + '</s>' }}{% endfor %}{{ '<h>assistant\n<plan>\n' if add_generation_prompt }}`,
			`{"role": "user", "content": "a"}, ` + called, []string{"1 <plot>fb</s>"}},
		"tools are wanted": {`{% for t in tools %}{{ t.function.name }}{% endfor %}{% for m in messages %}{{ '<h>' + m.role + '\n' + m.content }}{{ '\n</s>' if m.role == 'tool' and loop.nextitem is defined else '</s>' }}{% endfor %}{{ '<h>assistant\n' if add_generation_prompt }}`,
			`{"role": "user", "content": "a"}, {"role": "tool", "content": "r"}, {"role": "assistant", "content": "d"}`, []string{"2 d</s>"}},
		"a prompt in every text": {`{% for m in messages %}{{ '<h>' + m.role + ':' }}{% if m.role == 'assistant' %}{% if m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}{% if m.tool_calls %}` + calls + `{% else %}{{ '<r>' + m.content }}{% endif %}{% else %}{{ m.content }}{% endif %}{{ '</s>' }}{% endfor %}{{ '<h>assistant:<think></think>' }}`,
			`{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": "t", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]}, {"role": "tool", "content": "r"}, {"role": "assistant", "content": "d"}`, []string{"1 t</think><call>f</s>", "3 <r>d</s>"}},
	} {
		tok, err := templated(t, `{% if tools %}{% endif %}`+c.template)
		require.NoError(t, err, name)
		for _, s := range []string{"<h>", "<call>", "<answer>", "</answer>", "<r>", "<think>", "</think>", "</s>"} {
			id := int32(tok.Size())
			tok.special[id] = true
			require.NoError(t, tok.vocab.set(s, id, tok.Size()))
			tok.named.EOS = id
		}
		text, turns, err := tok.Turns(Conversation{Messages: json.RawMessage("[" + c.messages + "]"), Tools: json.RawMessage(`[{"type": "function", "function": {"name": "f", "parameters": {}}}]`)})
		require.NoError(t, err, name)
		var got []string
		for _, turn := range turns {
			got = append(got, fmt.Sprint(turn.Message, " ", text[turn.Start:turn.End]))
		}
		require.Equal(t, c.want, got, "%s: %q", name, text)
	}
}

// The ids of spans are those of which a byte is in one, whatever the text before.
func TestEncodeSpans(t *testing.T) {
	data, err := Bytes()
	require.NoError(t, err)
	tok, err := Parse(data)
	require.NoError(t, err)
	tok.before, tok.after = []int32{1}, []int32{2}
	for _, c := range []struct {
		spans []Span
		want  []bool
	}{
		{nil, []bool{false, false, false, false, false, false}},
		{[]Span{{0, 4}}, []bool{true, true, true, true, true, true}},
		{[]Span{{1, 2}, {3, 4}}, []bool{false, false, true, false, true, true}},
		{[]Span{{0, 1}, {2, 2}}, []bool{true, true, false, false, false, false}},
	} {
		ids, inside, err := tok.EncodeSpans("abcd", c.spans, Options{})
		require.NoError(t, err)
		require.Equal(t, []int32{1, 'a', 'b', 'c', 'd', 2}, ids)
		require.Equal(t, c.want, inside)
		_, inside, err = tok.EncodeSpans("abcd", c.spans, Options{Bare: true})
		require.NoError(t, err)
		require.True(t, slices.Equal(c.want[1:5], inside))
	}
	for _, spans := range [][]Span{{{0, 5}}, {{2, 1}}, {{0, 2}, {1, 3}}, {{-1, 1}}} {
		_, _, err := tok.EncodeSpans("abcd", spans, Options{})
		require.ErrorContains(t, err, "tokenizer: encode: a span of the bytes")
	}
}
