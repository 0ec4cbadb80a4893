package serve

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/generate"
)

// spaced returns a tokenizer.json as Llama 2 has it: a space before the first word, which decoding takes away, and bytes
// for characters that have no token. Ids are those of the list.
func spaced(t *testing.T) []byte {
	t.Helper()
	vocab := map[string]int{}
	for i, text := range strings.Split("<unk> <s> </s> ▁ a n d t h e c ▁a ▁an ▁and ▁t ▁th ▁the ▁c ca ▁ca <0xF0> <0x9F> <0x98> <0x80> <0x81> <0x0A> <0xC3> <0xA9> <|end|> <|turn|>", " ") {
		vocab[text] = i
	}
	special := func(text string) map[string]any {
		return map[string]any{"id": vocab[text], "content": text, "special": true}
	}
	replace := func(from, to string) map[string]any {
		return map[string]any{"type": "Replace", "pattern": map[string]string{"String": from}, "content": to}
	}
	b, err := json.Marshal(map[string]any{
		"added_tokens": []any{special("<unk>"), special("<s>"), special("</s>"), special("<|end|>"), special("<|turn|>")},
		"normalizer":   map[string]any{"type": "Sequence", "normalizers": []any{map[string]string{"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")}},
		"decoder": map[string]any{"type": "Sequence", "decoders": []any{replace("▁", " "), map[string]string{"type": "ByteFallback"}, map[string]string{"type": "Fuse"},
			map[string]any{"type": "Strip", "content": " ", "start": 1, "stop": 0}}},
		"model": map[string]any{"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "vocab": vocab,
			"merges": [][2]string{{"▁", "a"}, {"▁a", "n"}, {"▁an", "d"}, {"▁", "t"}, {"▁t", "h"}, {"▁th", "e"}, {"▁", "c"}, {"c", "a"}, {"▁", "ca"}}},
	})
	require.NoError(t, err)
	return b
}

// forcing returns the fields with which a model writes tokens one after the other, none of which is in the prompt: a
// token that has come has a lower logit than all others.
func forcing(ids ...int) string {
	bias := map[string]float64{}
	for i, id := range ids {
		bias[fmt.Sprint(id)] = float64(1000 - 100*i)
	}
	b, _ := json.Marshal(bias)
	return fmt.Sprintf(`"temperature": 0, "frequency_penalty": 5000, "logit_bias": %s`, b)
}

// answers returns the choices of an answer, or of the events of a stream.
func answers(t *testing.T, url, body string) (texts string, finish string, logs textLogProbs, chat []chatLogProb) {
	t.Helper()
	status, _, answer := post(t, url, body)
	require.Equal(t, 200, status, answer)
	lines := bufio.NewScanner(strings.NewReader(answer))
	for lines.Scan() {
		text := strings.TrimPrefix(lines.Text(), "data: ")
		if text == "" || text == "[DONE]" {
			continue
		}
		var b struct {
			Choices []struct {
				Text           string
				Delta, Message struct{ Content string }
				LogProbs       struct {
					textLogProbs
					Content []chatLogProb `json:"content"`
				} `json:"logprobs"`
				Finish *string `json:"finish_reason"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(text), &b), text)
		for _, c := range b.Choices {
			texts += c.Text + c.Delta.Content + c.Message.Content
			if c.Finish != nil {
				finish += *c.Finish
			}
			l := c.LogProbs
			logs.Tokens, logs.Values = append(logs.Tokens, l.Tokens...), append(logs.Values, l.Values...)
			logs.Top, logs.Offsets = append(logs.Top, l.Top...), append(logs.Offsets, l.Offsets...)
			chat = append(chat, l.Content...)
		}
	}
	return texts, finish, logs, chat
}

// A continuation is the text of the whole without that of the prompt, and tokens have their own spaces and bytes.
// The texts are those of the package tokenizers.
func TestContinuation(t *testing.T) {
	s, _ := openTokenizer(t, spaced(t), `{% for m in messages %}{{ m.content }}{% endfor %}`, generate.Options{Room: 60, Sequences: 2}, Config{})
	h := httptest.NewServer(s)
	defer h.Close()
	const and, the, f0, nine, x98, x80, nl, turn = 13, 16, 20, 21, 22, 23, 25, 29
	for _, c := range []struct {
		prompt  string
		ids     []int
		text    string
		tokens  []string
		offsets []int
	}{
		{`"c"`, []int{and, the}, " and the", []string{" and", " the"}, []int{0, 4}},
		{`"<s>"`, []int{and, the}, "and the", []string{" and", " the"}, []int{0, 3}},
		{`[17]`, []int{f0, nine, x98, x80, and}, "😀 and", []string{`bytes:\xf0`, `bytes:\x9f`, `bytes:\x98`, `bytes:\x80`, " and"}, []int{0, 0, 0, 0, 1}},
		{`[17, 20, 21]`, []int{x98, x80, and}, "😀 and", []string{`bytes:\x98`, `bytes:\x80`, " and"}, []int{0, 0, 1}},
		{`[17]`, []int{f0, and}, "\ufffd and", []string{`bytes:\xf0`, " and"}, []int{0, 1}},
		{`[17]`, []int{and, f0, turn, nine, the}, " and\ufffd\ufffd the", []string{" and", `bytes:\xf0`, "<|turn|>", `bytes:\x9f`, " the"}, []int{0, 4, 4, 4, 6}},
		{`[17]`, []int{turn, and, nl, the}, " and\n the", []string{"<|turn|>", " and", "\n", " the"}, []int{0, 0, 4, 5}},
		{`[17]`, []int{26, 27, and}, "é and", []string{`bytes:\xc3`, `bytes:\xa9`, " and"}, []int{0, 0, 1}},
	} {
		for _, stream := range []bool{false, true} {
			body := fmt.Sprintf(`{"prompt": %s, "max_tokens": %d, "logprobs": 20, "stream": %v, %s}`, c.prompt, len(c.ids), stream, forcing(c.ids...))
			text, finish, logs, _ := answers(t, h.URL+"/v1/completions", body)
			require.Equal(t, c.text, text, body)
			require.Equal(t, "length", finish)
			require.Equal(t, c.tokens, logs.Tokens)
			require.Equal(t, c.offsets, logs.Offsets)
			for i, top := range logs.Top { // none is lost, and the token itself is there
				require.Contains(t, []int{20, 21}, len(top))
				require.Equal(t, *logs.Values[i], top[logs.Tokens[i]])
			}
		}
		if c.prompt == `"c"` {
			body := fmt.Sprintf(`{"messages": [{"role": "user", "content": "c"}], "max_tokens": 2, "logprobs": true, "top_logprobs": 1, %s}`, forcing(c.ids...))
			text, _, _, chat := answers(t, h.URL+"/v1/chat/completions", body)
			require.Equal(t, c.text, text)
			require.Equal(t, []int{' ', 'a', 'n', 'd'}, chat[0].Bytes)
		}
	}
	// The tokens of a stop are left out, as its text is.
	const an, n = 12, 5
	for _, c := range []struct {
		ids    []int
		stop   string
		text   string
		tokens []string
	}{
		{[]int{and, the, nl}, " the\n", " and", []string{" and"}},
		{[]int{and, the, nl}, "he\n", " and t", []string{" and", " the"}},
		{[]int{an, n, nl}, "n\n", " an", []string{" an"}},
		{[]int{and, turn}, "<|turn|>", " and", []string{" and"}},
	} {
		for _, stream := range []bool{false, true} {
			stop, _ := json.Marshal(c.stop)
			more := fmt.Sprintf(`"max_tokens": 9, "stop": %s, "stream": %v, %s}`, stop, stream, forcing(c.ids...))
			text, finish, logs, _ := answers(t, h.URL+"/v1/completions", `{"prompt": "c", "logprobs": 0, `+more)
			require.Equal(t, c.text, text, more)
			require.Equal(t, "stop", finish)
			require.Equal(t, c.tokens, logs.Tokens, more)
			require.Equal(t, map[string]float64{c.tokens[0]: *logs.Values[0]}, logs.Top[0])
			_, _, _, chat := answers(t, h.URL+"/v1/chat/completions", `{"messages": [{"role": "user", "content": "c"}], "logprobs": true, `+more)
			require.Len(t, chat, len(c.tokens))
		}
	}
	_, _, _, chat := answers(t, h.URL+"/v1/chat/completions", fmt.Sprintf(`{"messages": [{"role": "user", "content": "c"}], "max_tokens": 2, "logprobs": true, %s}`, forcing(f0, turn)))
	require.Equal(t, []int{0xf0}, chat[0].Bytes)
	require.Equal(t, "<|turn|>", chat[1].Token)
}

// With echo, the tokens of the prompt have the probabilities with which the model would have written them.
func TestEchoScores(t *testing.T) {
	s, _ := openTokenizer(t, spaced(t), "", generate.Options{Room: 60, Sequences: 2}, Config{})
	h := httptest.NewServer(s)
	defer h.Close()
	url := h.URL + "/v1/completions"
	// The probabilities of tokens that are generated, one after the other, are those that the prompt's tokens have.
	prompt, ids := `[1, 16`, []int{13, 19, 7, 12, 5, 17, 28, 20}
	var want []float64
	var top []map[string]float64
	for _, id := range ids {
		_, _, logs, _ := answers(t, url, fmt.Sprintf(`{"prompt": %s], "max_tokens": 1, "logprobs": 3, %s}`, prompt, forcing(id)))
		want, top = append(want, *logs.Values[0]), append(top, logs.Top[0])
		prompt += fmt.Sprint(", ", id)
	}
	for _, body := range []string{
		`{"prompt": %s], "echo": true, "max_tokens": 0, "logprobs": 3, "temperature": 0}`,
		`{"prompt": %s], "echo": true, "max_tokens": 0, "logprobs": 3, "temperature": 0, "stream": true}`,
		`{"prompt": %s], "echo": true, "max_tokens": 1, "logprobs": 3, "temperature": 0}`,
		`{"prompt": %s], "echo": true, "max_tokens": 2, "logprobs": 3, "temperature": 0, "stream": true}`,
	} {
		text, finish, logs, _ := answers(t, url, fmt.Sprintf(body, prompt))
		require.True(t, strings.HasPrefix(text, "the and cat ann c"), text)
		require.Equal(t, "length", finish)
		require.Equal(t, []string{"<s>", " the", " and", " ca", "t", " an", "n", " c", "<|end|>"}, logs.Tokens[:9])
		require.Equal(t, []int{0, 0, 3, 7, 10, 11, 14, 15, 17, 17}, logs.Offsets[:10])
		require.Nil(t, logs.Values[0])
		require.Nil(t, logs.Top[0])
		for i := range want {
			require.Equal(t, want[i], *logs.Values[2+i])
			require.Equal(t, top[i], logs.Top[2+i])
		}
		if strings.Contains(body, `"max_tokens": 0`) {
			require.Len(t, logs.Tokens, 10)
			require.NotContains(t, text, "\n")
		} else {
			require.Greater(t, len(logs.Tokens), 10)
		}
	}
	// A text comes back as it was given, and the answer after it.
	for _, body := range []string{`{"prompt": "the<|turn|>and<|end|>", "echo": true, "max_tokens": 1, "logprobs": 0, %s}`, `{"prompt": "the<|turn|>and<|end|>", "echo": true, "max_tokens": 1, "logprobs": 0, "stream": true, %s}`} {
		text, _, logs, _ := answers(t, url, fmt.Sprintf(body, forcing(19)))
		require.Equal(t, "the<|turn|>and<|end|> ca", text)
		require.Equal(t, []string{" the", "<|turn|>", " and", "<|end|>", " ca"}, logs.Tokens)
		require.Equal(t, []int{0, 3, 11, 14, 21}, logs.Offsets)
	}
	_, _, answer := post(t, url, fmt.Sprintf(`{"prompt": [%s], [1, 3]], "echo": true, "max_tokens": 0, "logprobs": 1}`, prompt))
	require.Contains(t, answer, `"usage":{"prompt_tokens":12,"completion_tokens":0,"total_tokens":12,`)
	_, _, answer = post(t, url, `{"prompt": "the", "max_tokens": 0}`)
	require.Contains(t, answer, "0 tokens at most, want at least 1")
}
