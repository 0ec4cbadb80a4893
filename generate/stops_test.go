package generate

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
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
	} {
		s, got := NewStops(c.stops), ""
		for _, p := range c.parts {
			text, _ := s.Push(p)
			got += text
		}
		if got += s.Rest(); got != c.want {
			t.Errorf("%q with stops %q gives %q, want %q", c.parts, c.stops, got, c.want)
		}
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
	g, err := Open(m, c, Options{Room: 40, Sequences: 2, Tokenizer: tok})
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
	require.Equal(t, tok.Decode(ids), text)
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
