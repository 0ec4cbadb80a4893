package generate

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/tokenizer"
)

// What could be the beginning of a text at which to stop is held back until it is known.
func TestStops(t *testing.T) {
	for _, c := range []struct {
		stops []string
		parts []string
		want  string
	}{
		{nil, []string{"ab", "c"}, "abc"},
		{[]string{"END"}, []string{"xE", "N", "ENx"}, "xENENx"},
		{[]string{"END"}, []string{"xE", "N", "D", "more"}, "x"},
		{[]string{"END", "x"}, []string{"aEN", "x"}, "aEN"},
		{[]string{"aab"}, []string{"a", "a", "a", "b"}, "a"},
		{[]string{"END"}, []string{"xE"}, "xE"},
		{[]string{"abab", "bc"}, []string{"ababab"}, ""},
		{[]string{"abac"}, []string{"ab", "aba", "cd"}, "ab"},
		{[]string{"abc", "b"}, []string{"abc"}, "a"}, // as if every character was a token
		{[]string{"abc", "b"}, []string{"a", "b", "c"}, "a"},
		{[]string{"é"}, []string{"è", "xé"}, "èx"},
	} {
		s, got := NewStops(c.stops, nil), ""
		for _, p := range c.parts {
			text, _ := s.Push(p)
			got += text
		}
		if got += s.Rest(); got != c.want {
			t.Errorf("%q with stops %q gives %q, want %q", c.parts, c.stops, got, c.want)
		}
	}
}

// withSpecials is a tokenizer as Llama 2 has it, whose tokens 0 and 1 are special.
const withSpecials = `{
	"added_tokens": [{"id": 0, "content": "<|end|>", "special": true}, {"id": 1, "content": "<|0|>", "special": true}, {"id": 2, "content": "<call>", "special": false}],
	"decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
	"model": {"type": "BPE", "vocab": {"<|end|>": 0, "<|0|>": 1, "<call>": 2, "a": 3, "▁b": 4, "<": 5, "|end|>": 6, "<0xC3>": 7, "<0xA9>": 8, "<0x0A>": 9, "0": 10, "1": 11}, "merges": []}
}`

// A text with special tokens ends where the model writes these tokens, which are no part of the text.
func TestStopsAtTokens(t *testing.T) {
	tok, err := tokenizer.Parse([]byte(withSpecials))
	require.NoError(t, err)
	for _, c := range []struct {
		stops   []string
		ids     []int32
		want    string
		stopped bool
	}{
		{[]string{"<|end|>"}, []int32{3, 4, 0, 3}, "a b", true},
		{[]string{"<|end|>"}, []int32{3, 4, 1, 3}, "a ba", false},
		{[]string{"x", "<|end|>"}, []int32{0}, "", true},
		{[]string{"<|end|>"}, []int32{3, 5, 6, 3}, "a", true}, // tokens that write its name
		{[]string{" b<|end|>"}, []int32{3, 4, 4, 0, 3}, "a b", true},
		{[]string{" b<|end|>"}, []int32{3, 4, 1, 0, 3}, "a", true}, // no text has the other token
		{[]string{"<|end|>a"}, []int32{4, 0, 4, 0, 3, 3}, " b b", true},
		{[]string{"<|end|> b<|0|>"}, []int32{3, 0, 4, 1, 3}, "a", true},
		{[]string{"<|end|> b<|0|>"}, []int32{3, 0, 4, 0, 4}, "a b b", false},
		{[]string{"é<|end|>"}, []int32{3, 7, 8, 0, 3}, "a", true},
		{[]string{"<|end|>"}, []int32{3, 7, 8, 0, 3}, "aé", true},
		{[]string{"<|end|>x"}, []int32{3, 7, 0, 8, 3}, "aéa", false},     // a character around a token
		{[]string{"<|end|> b"}, []int32{3, 7, 0, 4, 3}, "a\ufffd", true}, // a part of a character before a token
		{[]string{"<|end|> b"}, []int32{3, 7, 0, 8, 4, 3}, "aé", true},
		{[]string{"<|end|><|0|>"}, []int32{3, 7, 0, 1, 3}, "a\ufffd", true},
		{[]string{"\ufffd<|end|> b"}, []int32{3, 7, 0, 4, 3}, "a", true},
		{[]string{"<|end|>a"}, []int32{3, 7, 0, 4, 3}, "a\ufffd ba", false},
		{[]string{"<call>"}, []int32{3, 2, 3}, "a", true},          // a token that is no special one
		{[]string{"0", "1"}, []int32{3, 1, 0, 4, 11}, "a b", true}, // no mark of a token has these digits
		{[]string{"\n"}, []int32{3, 9}, "a", true},                 // with the token that writes it
		{[]string{"\n\n"}, []int32{3, 9, 3, 9, 9}, "a\na", true},
		{[]string{"\n"}, []int32{3, 7, 8, 9}, "aé", true},
	} {
		s, stream, got, stopped := NewStops(c.stops, tok), tok.Continue([]int32{3}), "", false
		for i, id := range c.ids {
			var text string
			text, stopped = s.Token(id, stream)
			if got += text; stopped && c.stopped {
				require.GreaterOrEqual(t, i, len(c.ids)-2, "%q", c.stops)
				break
			}
		}
		if !stopped {
			text, _ := s.Push(stream.Flush())
			got += text + s.Rest()
		}
		require.Equal(t, c.want, got, "%q %d", c.stops, c.ids)
		require.Equal(t, c.stopped, stopped, "%q %d", c.stops, c.ids)
	}
}

// The texts of tokens, put together, are the text of all of them, up to where it stops.
func TestText(t *testing.T) {
	c, err := checkpoint.Open(writeGGUF(t, graph.Q8_0, false, nil))
	require.NoError(t, err)
	defer c.Close()
	tok, err := Tokenizer(c)
	require.NoError(t, err)
	m, err := models.Open(c)
	require.NoError(t, err)
	g, err := Open(t.Context(), m, c, Options{Room: 40, Sequences: 2, Tokenizer: tok})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	write := func(stops ...string) (text string, ids []int32, r Result) {
		r, err := g.Generate(context.Background(), Request{Prompt: []int32{2, 4, 32, 3}, N: 20, Stops: stops}, func(x Token) bool {
			text, ids = text+x.Text, append(ids, x.ID)
			return true
		})
		require.NoError(t, err)
		return text + r.Rest, ids, r
	}
	text, ids, r := write()
	prompt := []int32{2, 4, 32, 3}
	require.Equal(t, tok.Decode(append(prompt, ids...)), tok.Decode(prompt)+text)
	require.Equal(t, Length, r.Finish)
	stop := text[len(text)/2:][:2]
	short, fewer, r := write("nothing", stop)
	require.Equal(t, text[:strings.Index(text, stop)], short)
	require.Less(t, len(fewer), len(ids))
	require.Equal(t, Stopped, r.Finish)
	// A token that ends the text is not part of it.
	r, err = g.Generate(context.Background(), Request{Prompt: []int32{2, 4, 32, 3}, N: 20, Ends: map[int32]bool{ids[3]: true}}, func(x Token) bool {
		require.NotEqual(t, ids[3], x.ID)
		return true
	})
	require.NoError(t, err)
	require.Equal(t, Stopped, r.Finish)
}
