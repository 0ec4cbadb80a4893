package data

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/tokenizer"
)

// style is a tokenizer with a chat template, and lines with the tokens that transformers makes of them: testdata/styles.py.
type style struct {
	Name              string
	Tokenizer, Config json.RawMessage
	Cases             []struct {
		Line    json.RawMessage
		IDs     []int32
		Learned [][2]int // parts of IDs
	}
}

func styles(t testing.TB) []style {
	t.Helper()
	f, err := os.Open("testdata/styles.json.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var all []style
	require.NoError(t, json.NewDecoder(z).Decode(&all))
	require.NotEmpty(t, all)
	return all
}

func (s style) open(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tokenizer.json"), string(s.Tokenizer))
	write(t, filepath.Join(dir, "tokenizer_config.json"), string(s.Config))
	tok, err := tokenizer.Open(dir)
	require.NoError(t, err)
	return tok
}

// spans returns the runs of true values.
func spans(learn []bool) [][2]int {
	var out [][2]int
	for i, l := range learn {
		switch {
		case l && len(out) > 0 && out[len(out)-1][1] == i:
			out[len(out)-1][1]++
		case l:
			out = append(out, [2]int{i, i + 1})
		}
	}
	return out
}

// The tokens of conversations, and of prompts with completions, are those that transformers makes of the whole. What is
// learned is what the model writes, with the token that ends its turn.
func TestStyles(t *testing.T) {
	for _, s := range styles(t) {
		t.Run(s.Name, func(t *testing.T) {
			tok := s.open(t)
			for _, c := range s.Cases {
				d, err := parse(Options{Tokenizer: tok}, c.Line)
				require.NoError(t, err, string(c.Line))
				ids, learn, err := d.encode(tok)
				require.NoError(t, err, string(c.Line))
				if !slices.Equal(ids, c.IDs) {
					t.Errorf("%s:\n%q, want\n%q", c.Line, tok.DecodeAll(ids), tok.DecodeAll(c.IDs))
					continue
				}
				if got := spans(learn); !slices.Equal(got, c.Learned) {
					t.Errorf("%s: learned %v, want %v", c.Line, shown(tok, ids, got), shown(tok, ids, c.Learned))
				}
			}
		})
	}
}

// shown returns parts of ids as texts, the texts of the tokens apart.
func shown(tok *tokenizer.Tokenizer, ids []int32, parts [][2]int) [][]string {
	var out [][]string
	for _, p := range parts {
		var texts []string
		for _, id := range ids[p[0]:p[1]] {
			s, _ := tok.Text(id)
			texts = append(texts, s)
		}
		out = append(out, texts)
	}
	return out
}

// The forms of data sets make the same document.
func TestForms(t *testing.T) {
	all := styles(t)
	i := slices.IndexFunc(all, func(s style) bool { return s.Name == "qwen3" })
	tok := all[i].open(t)
	const tools = `[{"type": "function", "function": {"name": "f", "parameters": {}}}]`
	for _, c := range []struct {
		want   string
		others []string
	}{
		{`{"messages": [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "c"}]}`, []string{
			`{"messages": [{"role": "user", "content": [{"type": "text", "text": "a\n"}, {"type": "text", "text": "b"}]}, {"role": "assistant", "content": [{"type": "text", "text": "c"}], "name": null, "tool_calls": null, "refusal": null}], "tools": null}`,
			`{"messages": [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "c", "tool_calls": [], "weight": 1}], "tools": "[]"}`,
			`{"conversations": [{"from": "human", "value": "a\nb"}, {"from": "gpt", "value": "c"}]}`,
			`{"conversations": [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "c"}], "tools": ""}`,
			`{"instruction": "a", "input": "b", "output": "c"}`,
			`{"instruction": "a", "input": "b", "output": "c", "text": "a b c"}`,
			`{"instruction": "a", "input": "b", "output": "c", "prompt": "a b c"}`,
			`{"instruction": "", "input": "a\nb", "output": "c"}`,
			`{"instruction": "a", "context": "b", "response": "c", "category": "x"}`,
			`{"prompt": "a\nb", "response": "c"}`,
			`{"question": "a", "answer": "c", "input": "b"}`,
			`{"question": "a", "answer": "c", "context": "b", "text": null, "messages": null}`,
			`{"instruction": "a", "context": "b", "output": "c"}`,
			`{"question": "a\nb", "answer": "c", "response": "d"}`,
			`{"question": "a\nb", "answer": "c", "prompt": "repeated"}`,
			`{"system_prompt": "", "question": "a\nb", "response": "c", "id": 3, "scores": [NaN, -Infinity, Infinity], "context": NaN, "note": "NaN \"NaN"}`,
			`{"query": "a\nb", "response": "c"}`,
			`{"problem": "a\nb", "solution": "c", "answer": "d"}`,
			`{"problem": "a\nb", "answer": "c"}`,
			`{"question": "a\nb", "solution": "c", "answer": "d", "label": true}`,
			`{"text": "a b c", "instruction": "a\nb", "output": "c", "label": "false", "kto_tag": true, "functions": "[]", "chat_template_kwargs": {"tools": "", "messages": []}}`,
			`{"inputs": "a\nb", "targets": "c"}`,
			`{"input": "a\nb", "output": "c"}`,
			`{"input": "a", "context": "b", "output": "c"}`,
			`{"messages": [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "c"}], "text": "rendered", "question": "q", "answer": "r"}`,
			`{"messages": ` + asJSON(`[{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "c", "train": true, "loss": null}]`) + `}`,
			`{"conversation": [{"role": "human", "content": "a\nb"}, {"role": "ai", "content": "c"}], "text": "rendered"}`,
			`{"prompt": "a\nb", "prompt_id": "x", "messages": [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "c"}], "answer": 1, "response": {}}`,
			`{"conversation": [{"role": "human", "content": "a\nb"}, {"role": "ai", "content": "c"}]}`,
			`{"conversation": [{"from": "human", "value": "a\nb"}, {"from": "gpt", "value": "c"}]}`,
			`{"messages": [{"role": "user", "content": "a\nb"}, {"role": "model", "content": "c"}]}`,
			`{"instruction": "a\nb", "input": "", "output": "c", "system": "", "history": []}`,
			`{"prompt": [{"role": "user", "content": "a\nb"}], "completion": [{"role": "assistant", "content": "c"}]}`,
			`{"messages": [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "c"}, {"role": "user", "content": "not answered"}]}`,
			`{"messages": [{"role": "user", "content": "a\nb", "Role": "tool"}, {"role": "assistant", "content": "c", "Weight": 0, "ROLE": 1}], "Messages": [], "Text": "t", "Prompt": 1, "System": "s"}`,
		}},
		{`{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]}`, []string{
			`{"messages": [{"role": "developer", "content": "s"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]}`,
			`{"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}, {"from": "human", "value": "c"}, {"from": "gpt", "value": "d"}]}`,
			`{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}, {"from": "human", "value": "c"}, {"from": "gpt", "value": "d"}], "system": "s"}`,
			`{"instruction": "c", "output": "d", "system": "s", "history": [["a", "b"]]}`,
			`{"prompt": "c", "response": "d", "system_prompt": "s", "history": [["a", "b"]]}`,
			`{"query": "c", "response": "d", "system": "s", "system_prompt": "s", "history": [["a", "b"]]}`,
			`{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}, {"from": "human", "value": "c"}, {"from": "gpt", "value": "d"}], "system_prompt": "s"}`,
			`{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}], "history": [["a", "b"]]}`,
		}},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]}`, []string{
			`{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b", "weight": 0}, {"from": "human", "value": "c"}, {"from": "gpt", "value": "d"}]}`,
			`{"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}], "completion": [{"role": "assistant", "content": "d"}]}`,
			`{"prompt": [{"role": "user", "content": "c"}], "completion": [{"role": "assistant", "content": "d"}], "history": [["a", "b"]]}`,
			`{"messages": [{"role": "user", "content": "a", "train": false}, {"role": "assistant", "content": "b", "train": false}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d", "train": true}]}`,
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "loss": false}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d", "train_detail": []}]}`,
			`{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b", "training": false}, {"from": "human", "value": "c"}, {"from": "gpt", "value": "d"}]}`,
		}},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]}, {"role": "tool", "content": "r"}, {"role": "assistant", "content": "b"}], "tools": ` + tools + `}`, []string{
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]}, {"role": "tool", "content": "r"}, {"role": "assistant", "content": "b"}], "tools": ` + asJSON(tools) + `}`,
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]}, {"role": "tool", "content": [{"type": "text", "text": "r"}]}, {"role": "assistant", "content": "b"}], "tools": [` + asJSON(tools[1:len(tools)-1]) + `]}`,
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"x\": 1}"}}, {"role": "function", "name": "f", "content": "r"}, {"role": "assistant", "content": "b"}], "tools": ` + tools + `}`,
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "function_call": {"name": "f", "arguments": "{\"x\": 1}"}}, {"role": "function", "name": "f", "content": "r"}, {"role": "assistant", "content": "b"}], "functions": [{"name": "f", "parameters": {}}], "tools": [], "chat_template_kwargs": {"tools": null}}`,
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "function_call": {"name": "f", "arguments": "{\"x\": 1}"}}, {"role": "function", "name": "f", "content": "r"}, {"role": "assistant", "content": "b"}], "functions": ` + asJSON(`[{"name": "f", "parameters": {}}]`) + `}`,
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "function_call": {"name": "f", "arguments": "{\"x\": 1}"}}, {"role": "function", "name": "f", "content": "r"}, {"role": "assistant", "content": "b"}], "functions": ` + tools + `}`,
			`{"conversations": [{"from": "human", "value": "a"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"}, {"from": "observation", "value": "r"}, {"from": "gpt", "value": "b"}], "tools": ` + asJSON(tools) + `}`,
		}},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]}]}`, []string{
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": ""}}]}]}`,
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": " \n"}}]}]}`,
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "null"}}]}]}`,
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": null}}]}]}`,
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f"}}]}]}`,
		}},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": "r"}]}`, []string{
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning": "r"}]}`,
			`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "thinking": "r", "reasoning_content": null}]}`,
		}},
	} {
		document := func(line string) ([]int32, []bool) {
			d, err := parse(Options{Tokenizer: tok}, []byte(line))
			require.NoError(t, err, line)
			ids, learn, err := d.encode(tok)
			require.NoError(t, err, line)
			return ids, learn
		}
		ids, learn := document(c.want)
		require.NotEmpty(t, spans(learn))
		for _, line := range c.others {
			gotIDs, gotLearn := document(line)
			require.Equal(t, tok.DecodeAll(ids), tok.DecodeAll(gotIDs), line)
			require.Equal(t, spans(learn), spans(gotLearn), line)
		}
	}
}

func asJSON(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// Variables of the template stand in the line, as they stand in a request.
func TestVariables(t *testing.T) {
	tok := bytesAndEnd(t, `{{ mood }}:`+template)
	d, err := parse(Options{Tokenizer: tok}, []byte(`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "chat_template_kwargs": {"mood": "calm"}}`))
	require.NoError(t, err)
	require.Equal(t, "calm:<user>a<|end|><assistant>b<|end|>", d.text)
}

// A template that cannot be read ends conversations, with one error for a file, and no other lines.
func TestUnreadableTemplate(t *testing.T) {
	dir := t.TempDir()
	tok := bytesAndEnd(t, "{% if %}")
	out := filepath.Join(dir, "tokens")
	_, err := Build(t.Context(), out, []string{write(t, filepath.Join(dir, "a.jsonl"), `{"prompt": "a", "completion": "b"}`)}, Options{Tokenizer: tok})
	require.NoError(t, err)
	require.Equal(t, "a[b|]\n", learned(t, out))
	chats := write(t, filepath.Join(dir, "b.jsonl"), `{"messages": [{"role": "assistant", "content": "b"}]}`+"\n"+`{"messages": [{"role": "assistant", "content": "c"}]}`)
	_, err = Build(t.Context(), out, []string{chats}, Options{Tokenizer: tok, Broken: 5})
	require.ErrorContains(t, err, "data: "+chats+":1: tokenizer: ")
	require.ErrorContains(t, err, "chat_template.jinja: chat template default: line 1: ")
}
