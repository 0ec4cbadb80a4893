package data

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/tokenizer"
)

const template = `{% for m in messages %}<{{ m.role }}>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`

// bytesAndEnd returns a tokenizer whose tokens are bytes, and <|end|>, which is 256.
func bytesAndEnd(t testing.TB, template string) *tokenizer.Tokenizer {
	t.Helper()
	text, err := tokenizer.Bytes()
	require.NoError(t, err)
	var all map[string]any
	require.NoError(t, json.Unmarshal(text, &all))
	all["added_tokens"] = []any{map[string]any{"id": 256, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}}
	text, err = json.Marshal(all)
	require.NoError(t, err)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tokenizer.json"), string(text))
	write(t, filepath.Join(dir, "tokenizer_config.json"), `{"eos_token": "<|end|>"}`)
	if template != "" {
		write(t, filepath.Join(dir, "chat_template.jinja"), template)
	}
	tok, err := tokenizer.Open(dir)
	require.NoError(t, err)
	require.EqualValues(t, 256, tok.Special().EOS)
	return tok
}

func write(t testing.TB, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// learned returns the text of a file of tokens, with what is to be predicted in brackets.
func learned(t *testing.T, path string) string {
	t.Helper()
	s, err := openShard(path)
	require.NoError(t, err)
	defer s.Close()
	var b strings.Builder
	on := false
	for i, id := range s.tokens {
		if learn := s.learn[i] != 0; learn != on {
			b.WriteString(map[bool]string{true: "[", false: "]"}[learn])
			on = learn
		}
		if id == 256 {
			b.WriteString("|")
		} else {
			b.WriteByte(byte(id))
		}
		if slices.Contains(s.ends, int64(i+1)) {
			if on {
				b.WriteString("]")
			}
			on = false
			b.WriteString("\n")
		}
	}
	return b.String()
}

func TestBuild(t *testing.T) {
	dir := t.TempDir()
	tok := bytesAndEnd(t, template)
	plain := write(t, filepath.Join(dir, "a.txt"), "one\n<|end|>")
	lines := write(t, filepath.Join(dir, "b.jsonl"), `{"text": "two"}

{"prompt": "2+2=", "completion": "4", "source": 7}
{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}, {"role": "user", "content": "more"}, {"role": "assistant", "content": "no"}, {"role": "user", "content": "?"}]}`)
	out := filepath.Join(dir, "tokens")
	var done, all int64
	o := Options{Tokenizer: tok, Progress: func(d, a int64) { done, all = d, a }}
	r, err := Build(t.Context(), out, []string{plain, lines}, o)
	require.NoError(t, err)
	require.Equal(t, "[one\n<|end|>|]\n[two|]\n2+2=[4|]\n<user>hi|<assistant>[ho|]<user>more|<assistant>[no|]\n", learned(t, out))
	require.EqualValues(t, 4, r.Documents)
	require.EqualValues(t, 12+4+6+48, r.Tokens)
	require.Positive(t, all)
	require.Equal(t, all-1, done, "all but the empty line")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 3, "temporary files")

	// The file stays if nothing has changed, and only then.
	reused := func(want bool, o Options, sources ...string) {
		t.Helper()
		r, err := Build(t.Context(), out, sources, o)
		require.NoError(t, err)
		require.Equal(t, want, r.Reused)
	}
	reused(true, o, plain, lines)
	reused(false, o, lines)
	reused(false, o, plain, lines)
	reused(false, Options{Tokenizer: bytesAndEnd(t, "-"+template)}, plain, lines)
	reused(false, Options{Tokenizer: bytesAndEnd(t, "-"+template+"{% if tools %}{{ tools }}{% endif %}")}, plain, lines)
	reused(false, o, plain, lines)
	require.NoError(t, os.Chtimes(plain, time.Time{}, time.Now().Add(time.Hour)))
	reused(false, o, plain, lines)
}

// When its context ends, Build says why, reads no more, and leaves nothing.
func TestBuildEnds(t *testing.T) {
	dir := t.TempDir()
	lines := write(t, filepath.Join(dir, "a.jsonl"), strings.Repeat(`{"text": "one"}`+"\n", 3*together))
	ctx, end := context.WithCancelCause(t.Context())
	why, done := errors.New("the reason"), int64(0)
	_, err := Build(ctx, filepath.Join(dir, "tokens"), []string{lines}, Options{Tokenizer: bytesAndEnd(t, ""), Progress: func(d, all int64) {
		done = d
		require.Less(t, d, all)
		end(why)
	}})
	require.ErrorIs(t, err, why)
	require.Positive(t, done)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "the source alone")
}

// Conversations for a model without a chat template are one error, and not one for each line.
func TestNoTemplate(t *testing.T) {
	dir := t.TempDir()
	chats := write(t, filepath.Join(dir, "c.jsonl"), strings.Repeat(`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`+"\n", 3))
	_, err := Build(t.Context(), filepath.Join(dir, "tokens"), []string{chats}, Options{Tokenizer: bytesAndEnd(t, ""), Broken: 5})
	require.EqualError(t, err, "data: "+chats+":1: the model has no chat template, which says how conversations become texts: write them as prompts with completions, or as texts")
}

// All broken lines are found and named, and nothing is written.
// A byte order mark, with which some editors begin a file, is no part of the text.
func TestMark(t *testing.T) {
	dir := t.TempDir()
	tok := bytesAndEnd(t, "")
	build := func(name, mark string) *Set {
		var files []string
		for file, text := range map[string]string{name + ".jsonl": `{"text": "a"}` + "\n" + `{"text": "bc"}`, name + ".txt": "def"} {
			files = append(files, write(t, filepath.Join(dir, file), mark+text))
		}
		slices.Sort(files)
		out := filepath.Join(dir, name)
		_, err := Build(t.Context(), out, files, Options{Tokenizer: tok})
		require.NoError(t, err)
		s, err := Open(out)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	}
	tokens := func(s *Set) []int32 {
		b, err := s.Batches(Order{Rows: 1, Length: int(s.Tokens()), InTurn: true})
		require.NoError(t, err)
		a, err := b.Step(0).Array(Tokens)
		require.NoError(t, err)
		return array.Data[int32](a)
	}
	require.Equal(t, tokens(build("plain", "")), tokens(build("marked", "\ufeff")))
}

func TestBroken(t *testing.T) {
	dir := t.TempDir()
	tok := bytesAndEnd(t, template)
	bad := []struct{ line, want string }{
		{`{"text": "a"`, "ends in the middle"},
		{`{"text": 3}`, "text: number, want a text"},
		{`[]`, "array, want an object"},
		{"{\"text\": \"\xff\"}", "not UTF-8"},
		{`{"title": "a"}`, "none of text, prompt with completion, and messages"},
		{`{"Text": "a", "Messages": []}`, "none of text, prompt with completion, and messages"},
		{`{"messages": [{"Role": "assistant", "Content": "a"}]}`, "message 1: it is no object with a role"},
		{`{"text": "a", "prompt": "b"}`, "more than one of text"},
		{`{"text": "a", "messages": []}`, "no message of the role assistant"},
		{`{"messages": [], "conversations": []}`, "more than one of text"},
		{`{"messages": [], "completion": "b"}`, "more than one of text"},
		{`{"messages": "a"}`, "messages: want a list of messages, or its JSON text"},
		{`{"prompt": "a"}`, "prompt: there is no answer, want completion or response"},
		{`{"completion": "a"}`, "a completion without a prompt"},
		{`{"prompt": "a", "chosen": "b", "rejected": "c"}`, "chosen and rejected: pairs of preferred answers are not trained on; write the chosen one as messages, or as the completion of the prompt"},
		{`{"chosen": [], "rejected": []}`, "chosen and rejected: pairs"},
		{`{"messages": []}`, "no message of the role assistant"},
		{`{"conversations": [{"from": "User", "value": "a"}, {"from": "Assistant", "value": "b"}]}`, `no message of the role assistant, from which a model could learn; the last message is of the role "Assistant"`},
		{`{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}], "label": false}`, "label: it is false for a rejected answer, which is not trained on; take the line out"},
		{`{"prompt": "a", "completion": "b", "label": false}`, "label: it is false for a rejected answer"},
		{`{"messages": [{"role": "assistant", "content": "b"}], "kto_tag": false}`, "kto_tag: it is false for a rejected answer"},
		{`{"messages": [{"role": "assistant", "content": "b"}], "tools": [{}], "functions": [{}]}`, "tools and functions: want one of them"},
		{`{"messages": [{"role": "assistant", "content": "b"}], "functions": {"name": "f"}}`, "functions: want a list of functions, or its JSON text"},
		{`{"prompt": "a", "completion": "b", "functions": [{}]}`, "functions: a prompt and a completion"},
		{`{"messages": [3]}`, "message 1: it is no object with a role"},
		{`{"messages": [{"role": "user", "content": "a"}]}`, "no message of the role assistant"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": 7}]}`, "message 2: its content is 7, want a text or a list of parts"},
		{`{"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]}`, "message 1: weight 0.5, want 0 or 1"},
		{`{"conversation": "a"}`, "none of text, prompt with completion, and messages"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]}`, "message 2: call 0 of its tool_calls: its arguments are no JSON"},
		{`{"prompt": "a", "completion": [{"role": "assistant", "content": "b"}]}`, "prompt and completion: want two texts, or two lists of messages"},
		{`{"conversations": [{"from": "human", "value": "a"}, {"value": "b"}]}`, "message 2: it is no object with a role"},
		{`{"instruction": "a"}`, "instruction: there is no answer, want output or response"},
		{`{"instruction": "a", "output": "b", "prompt": "c", "completion": "d"}`, "instruction with output, and prompt with completion: want one question with its answer"},
		{`{"instruction": "a", "question": "b", "answer": "c"}`, "instruction: it is a question next to question with answer; want one question"},
		{`{"prompt": "a", "input": "b", "output": "c"}`, "prompt: there is no answer, want completion or response"},
		{`{"prompt": "a", "completion": "b", "system": "s"}`, "system: a prompt and a completion that are texts have no conversation around them"},
		{`{"prompt": "a", "completion": "b", "system_prompt": "s"}`, "system_prompt: a prompt and a completion"},
		{`{"prompt": "a", "completion": "b", "history": [["c", "d"]]}`, "history: a prompt and a completion"},
		{`{"prompt": "a", "completion": "b", "context": "c"}`, "context: a prompt and a completion"},
		{`{"prompt": "a", "completion": "b", "tools": [{}]}`, "tools: a prompt and a completion"},
		{`{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}], "context": "c"}`, "context and input: the prompt is a list of messages"},
		{`{"question": "a", "answer": "b", "context": {"title": "c"}}`, "context: object, want a text"},
		{`{"messages": [{"role": "assistant", "content": "b"}], "context": "c"}`, "context: the conversation is in messages"},
		{`{"question": "a", "answer": "b", "system": "c", "system_prompt": "d"}`, "system_prompt: the conversation begins with another system message"},
		{`{"question": "a", "answer": "b", "system": 3}`, "system: number, want a text"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "train": 1}]}`, "message 2: train: number, want true or false"},
		{`{"messages": [{"role": "user", "content": "a", "loss": true}, {"role": "assistant", "content": "b"}]}`, `message 1: loss: true for the role "user", and only messages of the assistant are predicted`},
		{`{"conversations": [{"from": "gpt", "value": "b", "train_detail": [{"begin_offset": 0, "end_offset": 1, "train": false}]}]}`, "message 1: train_detail: a message is predicted as a whole or not at all; want weight 0 or 1 instead"},
		{`{"messages": [{"role": "assistant", "content": "b", "loss_scale": 0.5}]}`, "message 1: loss_scale: a message is predicted as a whole"},
		{`{"messages": [{"role": "assistant", "content": NaN}]}`, "messages: it has NaN or an infinity, which JSON does not have"},
		{`{"text": NaN}`, "none of text"},
		{`{"text": Na}`, "invalid character 'N'"},
		{`{"prompt": "a", "response": "b", "question": "a", "answer": "b"}`, "prompt with response, and question with answer: want one question with its answer"},
		{`{"instruction": "a", "output": "b", "history": [["c", "d"], ["e"]]}`, "history.1: a list of 1 texts, want a question and its answer"},
		{`{"instruction": "a", "output": "b", "history": [["c", "d", "e"]]}`, "history.0: a list of 3 texts"},
		{`{"instruction": "a", "output": "b", "history": [[]]}`, "history.0: a list of 0 texts"},
		{`{"instruction": "a", "output": "b", "history": [["c", null]]}`, "history.0.1: null, want a text"},
		{`{"instruction": "a", "output": "b", "history": ["c", "d"]}`, "history.0: string, want a list of texts"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": "0"}]}`, "message 2: weight: string, want a number"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": false}]}`, "message 2: weight: bool, want a number"},
		{`{"messages": [{"role": 3, "content": "a"}]}`, "message 1: role: number, want a text"},
		{`{"question": "a", "answer": ["b", "c"]}`, "question and answer: want two texts"},
		{`{"prompt": [{"role": "user", "content": "a"}], "response": "b"}`, "prompt and response: want two texts"},
		{`{"conversations": [{"from": "human", "text": "a"}, {"from": "gpt", "text": "b"}]}`, "message 1: it has no value"},
		{`{"system": "S", "conversations": [{"from": "system", "value": "T"}, {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}`, "system: the conversation begins with another system message"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "chat_template_kwargs": {"messages": [1]}}`, "further variables: messages is the conversation's own"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "chat_template_kwargs": {"tools": "t"}}`, "further variables: tools is the conversation's own"},
		{`{"messages": [{"role": "assistant", "content": "a"}], "tools": "[{"}`, "tools: want a list of tools, or its JSON text: "},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}]}]}`, "message 2: the chat template leaves out the calls of this message"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "tools": [{"type": "function"}]}`, `the chat template reads no "tools"`},
		{`{"conversations": [{"from": "human", "value": "a"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": ` + strings.Repeat("[", 9998) + strings.Repeat("]", 9998) + `}"}]}`, "exceeded max depth"},
	}
	var text strings.Builder
	for _, b := range bad {
		fmt.Fprintf(&text, "{\"text\": \"good\"}\n%s\n", b.line)
	}
	lines := write(t, filepath.Join(dir, "b.jsonl"), text.String())
	binary := write(t, filepath.Join(dir, "c.txt"), "one\ntwo\nthr\xffee\n")
	out := filepath.Join(dir, "tokens")
	_, err := Build(t.Context(), out, []string{lines, binary}, Options{Tokenizer: tok, Broken: len(bad)})
	var broken *BrokenError
	require.ErrorAs(t, err, &broken)
	require.Len(t, broken.Lines, len(bad)+1)
	for i, b := range bad {
		require.Equal(t, 2*i+2, broken.Lines[i].Line)
		require.ErrorContains(t, broken.Lines[i], fmt.Sprintf("%s:%d: ", lines, 2*i+2))
		require.ErrorContains(t, broken.Lines[i], b.want)
	}
	require.ErrorContains(t, broken.Lines[len(bad)], "c.txt: line 3 is not UTF-8")
	require.ErrorContains(t, err, fmt.Sprintf("data: %d broken lines, want at most %d\n", len(bad)+1, len(bad))+lines+":2: ")
	require.ErrorContains(t, err, fmt.Sprintf("\nand %d more", len(bad)+1-10))
	require.NoFileExists(t, out)

	r, err := Build(t.Context(), out, []string{lines, binary}, Options{Tokenizer: tok, Broken: len(bad) + 1})
	require.NoError(t, err)
	require.EqualValues(t, len(bad), r.Documents)
	require.Len(t, r.Broken, len(bad)+1)
}

// A conversation of which nothing is to be predicted is left out, and counted.
func TestIdle(t *testing.T) {
	dir := t.TempDir()
	lines := write(t, filepath.Join(dir, "a.jsonl"), `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0}]}
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "c"}]}
{"conversations": [{"from": "gpt", "value": "b", "weight": 0}]}
{"conversations": [{"from": "gpt", "value": "b", "train": false}]}
{"conversations": [{"from": "gpt", "value": "b", "training": false}]}
{"messages": [{"role": "assistant", "content": "b", "loss": false}]}
`)
	r, err := Build(t.Context(), filepath.Join(dir, "tokens"), []string{lines}, Options{Tokenizer: bytesAndEnd(t, template)})
	require.NoError(t, err)
	require.Equal(t, Report{Documents: 1, Tokens: r.Tokens, Idle: 5}, r)
}

// A file may be one JSON list, with any white space in it.
func TestList(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "tokens")
	build := func(name, text string, broken int) (Report, error) {
		return Build(t.Context(), out, []string{write(t, filepath.Join(dir, name), text)}, Options{Tokenizer: bytesAndEnd(t, template), Broken: broken})
	}
	for _, text := range []string{
		`[{"text": "a]\"\\"},{"instruction": "b", "output": "c"}]`,
		" \n[\n  {\n    \"text\": \"a]\\\"\\\\\"\n  },\n\n  {\"instruction\": \"b\",\n \"output\": \"c\", \"x\": [[1], {}]}\n]\n",
		mark + "{\"text\": \"a]\\\"\\\\\"}\n{\"instruction\": \"b\", \"output\": \"c\"}\n",
	} {
		_, err := build("a.json", text, 0)
		require.NoError(t, err, text)
		require.Equal(t, "[a]\"\\|]\n<user>b|<assistant>[c|]\n", learned(t, out), text)
	}
	r, err := build("b.json", "[{\"text\": \"a\"},\n\n {\"text\": 7}, \"x\",\n{\"text\": \"b\"},\n]", 9)
	require.NoError(t, err)
	var lines []int
	for _, b := range r.Broken {
		lines = append(lines, b.Line)
	}
	require.Equal(t, []int{3, 3, 5}, lines)
	for text, want := range map[string]string{
		`[]`:                         "no documents",
		`[{"text": 7}, {"text": 8}]`: "no documents; the first of 2 broken lines is " + filepath.Join(dir, "c.jsonl") + ":1: text: number, want a text",
		`[{"conversations": [{"from": "gpt", "value": "b", "weight": 0}]}]`: "no documents; in 1 conversations no message of the role assistant is to be learned",
		"[{\"text\": \"a\"},\n{":    "c.jsonl:2: the list ends in the middle; is it complete?",
		"[{\"text\": \"a\"}]\n{}":   "c.jsonl:2: there is more after the end of the list",
		`[{"text": "a"}, {"x": "]}`: "c.jsonl:1: the list ends in the middle; is it complete?",
	} {
		_, err := build("c.jsonl", text, 9)
		require.ErrorContains(t, err, want, text)
	}
}

// Templates get the date of the options. Without one they get the same date on every day.
func TestDate(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "tokens")
	lines := write(t, filepath.Join(dir, "a.jsonl"), `{"question": "a", "answer": "b"}`)
	o := Options{Tokenizer: bytesAndEnd(t, "{{ strftime_now('%Y-%m-%d') }}"+template)}
	for _, date := range []string{"2000-01-01", "2026-11-29", "2026-11-30"} {
		if date != "2000-01-01" {
			var err error
			o.Date, err = time.Parse(time.DateOnly, date)
			require.NoError(t, err)
		}
		for _, reused := range []bool{false, true} {
			r, err := Build(t.Context(), out, []string{lines}, o)
			require.NoError(t, err)
			require.Equal(t, reused, r.Reused)
			require.Equal(t, date+"<user>a|<assistant>[b|]\n", learned(t, out))
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	dir := t.TempDir()
	tok := bytesAndEnd(t, template)
	good := write(t, filepath.Join(dir, "a.txt"), "one")
	empty := write(t, filepath.Join(dir, "b.jsonl"), "\n\n")
	for _, c := range []struct {
		sources []string
		o       Options
		want    string
	}{
		{[]string{good}, Options{}, "no tokenizer"},
		{nil, Options{Tokenizer: tok}, "no sources"},
		{[]string{filepath.Join(dir, "none.txt")}, Options{Tokenizer: tok}, "none.txt: no such file"},
		{[]string{filepath.Join(dir, "a.parquet")}, Options{Tokenizer: tok}, "files of kind .parquet are not read"},
		{[]string{empty}, Options{Tokenizer: tok}, "b.jsonl: no documents"},
		{[]string{dir}, Options{Tokenizer: tok}, "this is a folder, want a file"},
	} {
		_, err := Build(t.Context(), filepath.Join(dir, "tokens"), c.sources, c.o)
		require.ErrorContains(t, err, c.want)
	}
	_, err := Build(t.Context(), filepath.Join(dir, "none", "tokens"), []string{good}, Options{Tokenizer: tok})
	require.ErrorContains(t, err, "no such file")
	require.NoFileExists(t, filepath.Join(dir, "tokens"))
	_, err = Build(t.Context(), dir+"/./"+filepath.Base(good), []string{good}, Options{Tokenizer: tok})
	require.EqualError(t, err, "data: "+dir+"/./"+filepath.Base(good)+" is also "+good+", which would be lost; want another name for the output")
}
