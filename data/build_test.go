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
		{`{"messages": [{"Role": "assistant", "Content": "a"}]}`, "message 1 is no object with a role"},
		{`{"text": "a", "messages": []}`, "more than one of text"},
		{`{"prompt": "a"}`, "a prompt and a completion come together"},
		{`{"messages": []}`, "no message of the role assistant"},
		{`{"messages": [3]}`, "message 1 is no object with a role"},
		{`{"messages": [{"role": "user", "content": "a"}]}`, "no message of the role assistant"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": 7}]}`, "message 2: its content is 7, want a text or a list of parts"},
		{`{"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]}`, "message 1: weight 0.5, want 0 or 1"},
		{`{"conversation": "a"}`, "none of text, prompt with completion, and messages"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]}`, "message 2: call 0 of its tool_calls: its arguments are no JSON"},
		{`{"prompt": "a", "completion": [{"role": "assistant", "content": "b"}]}`, "prompt and completion: want two texts, or two lists of messages"},
		{`{"conversations": [{"from": "human", "value": "a"}, {"value": "b"}]}`, "message 2 is no object with a role"},
		{`{"instruction": "a"}`, "an instruction and an output come together"},
		{`{"instruction": "a", "output": "b", "prompt": "c", "completion": "d"}`, "more than one of text"},
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
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "chat_template_kwargs": {"messages": []}}`, "further variables: messages is the conversation's own"},
		{`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "chat_template_kwargs": {"tools": null}}`, "further variables: tools is the conversation's own"},
		{`{"messages": [{"role": "assistant", "content": "a"}], "tools": "[{"}`, "tools: want a list of tools, or its JSON text: "},
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
	require.ErrorContains(t, err, "\nand 27 more")
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
`)
	r, err := Build(t.Context(), filepath.Join(dir, "tokens"), []string{lines}, Options{Tokenizer: bytesAndEnd(t, template)})
	require.NoError(t, err)
	require.Equal(t, Report{Documents: 1, Tokens: r.Tokens, Idle: 2}, r)
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
		{[]string{filepath.Join(dir, "a.json")}, Options{Tokenizer: tok}, "named .jsonl"},
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
