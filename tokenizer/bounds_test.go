package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// list returns n copies of a component of a tokenizer.json, as a list.
func list(n int, component string) string {
	return "[" + strings.Repeat(component+",", n-1) + component + "]"
}

// Steps that would make a text longer than any model needs end with an error, and not with the end of memory.
func TestLongTexts(t *testing.T) {
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	many := strings.Repeat("a", 20)
	replace := `{"type":"Replace","pattern":{"String":"a"},"content":"` + many + `"}`
	regex := `{"type":"Replace","pattern":{"Regex":"a"},"content":"` + many + `"}`
	for name, part := range map[string]string{
		"Replace":             `"normalizer":{"type":"Sequence","normalizers":` + list(19, replace) + `}`,
		"Regex":               `"normalizer":{"type":"Sequence","normalizers":` + list(19, regex) + `}`,
		"nested":              `"normalizer":{"type":"Sequence","normalizers":` + list(5, `{"type":"Sequence","normalizers":`+list(4, replace)+`}`) + `}`,
		"one step":            `"normalizer":{"type":"Replace","pattern":{"String":"a"},"content":` + quoted(strings.Repeat("b", 2<<20)) + `}`,
		"one step of matches": `"normalizer":{"type":"Replace","pattern":{"Regex":""},"content":` + quoted(strings.Repeat("b", 2<<20)) + `}`,
		"Prepend":             `"normalizer":{"type":"Sequence","normalizers":` + list(30, `{"type":"Prepend","prepend":`+quoted(strings.Repeat("b", 1<<16))+`}`) + `}`,
		"ByteLevel":           `"normalizer":{"type":"Sequence","normalizers":` + list(60, `{"type":"ByteLevel"}`) + `}`,
		"words":               `"pre_tokenizer":{"type":"Sequence","pretokenizers":` + list(60, `{"type":"ByteLevel","use_regex":false}`) + `}`,
	} {
		tok, err := Parse([]byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]},` + part + `}`))
		require.NoError(t, err, name)
		_, err = tok.Encode("aé", Options{})
		require.ErrorIs(t, err, errLong, name)
		_, err = tok.Encode("", Options{})
		require.NoError(t, err, name)
	}
	// The bound is for a whole text, and not for the parts between added tokens.
	tok, err := Parse([]byte(`{"added_tokens":[{"id":2,"content":"|"}],"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]},"normalizer":{"type":"Sequence","normalizers":` + list(3, replace) + `}}`))
	require.NoError(t, err)
	ids, err := tok.Encode("a|a", Options{})
	require.NoError(t, err)
	require.Len(t, ids, 2*8000+1)
	_, err = tok.Encode(strings.Repeat("a|", 1000), Options{})
	require.ErrorIs(t, err, errLong)
	// Decoding has no errors, so a decoder is refused.
	_, err = Parse([]byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"Sequence","decoders":` + list(2, replace) + `}}`))
	require.EqualError(t, err, "tokenizer: decoder: its steps make up to 400 bytes of one, want at most 64")
	_, err = Parse([]byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"Sequence","decoders":` + list(30, `{"type":"BPEDecoder","suffix":""}`) + `}}`))
	require.ErrorContains(t, err, "bytes of one, want at most 64")
	// The largest growth that Unicode's forms have is no error.
	tok, err = Parse([]byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKD"},{"type":"ByteLevel"}]}}`))
	require.NoError(t, err)
	_, err = tok.Encode(strings.Repeat("\ufdfa", 1_000_000), Options{})
	require.NoError(t, err)
}

// The tables of a SentencePiece model are bounded too: here "a" becomes 65536 characters.
func TestLongCharsmap(t *testing.T) {
	c := &charsmap{units: make([]uint32, 256), texts: []byte(strings.Repeat("b", 1<<16) + "\x00")}
	c.units[0] = 1 << 10                          // the nodes after the root begin at 1
	c.units[1^'a'] = 'a' | 1<<8 | (200^1^'a')<<10 // it ends here, and its value is at 200
	with, n := c.find("a", true)
	require.Equal(t, 1, n)
	require.Len(t, with, 1<<16)
	for _, n := range []normalizer{graphemes{c}, spaced{pieces: &pieces{chars: c}}} {
		_, err := normalized(n, strings.Repeat("a", 100), longest(""))
		require.ErrorIs(t, err, errLong)
		text, err := normalized(n, "ab", longest(""))
		require.NoError(t, err)
		require.Len(t, text, 1<<16+1)
	}
}

// An added token that takes white space on both sides is found once where it is white space itself. The ids are those of
// the package tokenizers.
func TestStripped(t *testing.T) {
	for _, c := range []struct {
		added string
		want  []int32
	}{
		{`{"id":1,"content":" ","lstrip":true,"rstrip":true}`, []int32{0, 1, 0, 1}},
		{`{"id":1,"content":" ","rstrip":true}`, []int32{0, 1, 1, 1, 0, 1, 1}},
		{`{"id":1,"content":" ","lstrip":true}`, []int32{0, 1, 1, 1, 0, 1, 1}},
	} {
		tok, err := Parse(fmt.Appendf(nil, `{"added_tokens":[%s],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`, c.added))
		require.NoError(t, err)
		ids, err := tok.Encode("a   a  ", Options{})
		require.NoError(t, err)
		require.Equal(t, c.want, ids, c.added)
		// In time that is not quadratic: half a million steps for each of half a million spaces would take minutes.
		ids, err = tok.Encode(strings.Repeat(" ", 1<<19), Options{})
		require.NoError(t, err)
		if c.want[2] == 0 {
			require.Len(t, ids, 1)
		} else {
			require.Len(t, ids, 1<<19)
		}
	}
}

// Runs of many marks are put in Unicode's forms without a character between them. The numbers of characters are those of
// the package tokenizers.
func TestManyMarks(t *testing.T) {
	for text, want := range map[string][4]int{
		"e" + strings.Repeat("\u0301", 40):                               {40, 41, 40, 41},
		strings.Repeat("\u0301\u0323", 50):                               {100, 100, 100, 100},
		"e" + strings.Repeat("\u0323\u0301", 35) + "x":                   {71, 72, 71, 72},
		strings.Repeat("\u1161", 40) + "가" + strings.Repeat("\u11a8", 3): {43, 45, 43, 45},
	} {
		for i, name := range []string{"NFC", "NFD", "NFKC", "NFKD"} {
			n, err := (&component{Type: name}).normalizer(0)
			require.NoError(t, err)
			got, err := n.normalize(text, 1<<20)
			require.NoError(t, err)
			require.Equal(t, want[i], len([]rune(got)), "%s of %q", name, text)
			require.NotContains(t, got, joiner)
		}
	}
}

// The normalizer Nmt changes the characters that the package tokenizers changes.
func TestNmt(t *testing.T) {
	n, err := (&component{Type: "Nmt"}).normalizer(0)
	require.NoError(t, err)
	got, err := n.normalize("\x00\x01a\x08\t\n\x0b\f\r\x0eb\x1f \x7f\u0085\u008f\u009f\u00a0\u1680\u2000\u200a\u200b\u200f\u2010\u2028\u2029\u202a▁\ufefe\ufeff\ufffd", 1<<20)
	require.NoError(t, err)
	require.Equal(t, "\x00a    b \u0085\u00a0 \u2000\u200a  \u2010  \u202a \ufefe  ", got)
}

// Pieces of any length end with an error where a text would take time that is quadratic in their length.
func TestLongPieces(t *testing.T) {
	file := func(n int) []byte {
		return fmt.Appendf(nil, `{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1],[%q,-2]]}}`, strings.Repeat("a", n))
	}
	tok, err := Parse(file(1000))
	require.NoError(t, err)
	ids, err := tok.Encode(strings.Repeat("a", 50_000), Options{})
	require.NoError(t, err)
	require.Len(t, ids, 50)
	tok, err = Parse(file(30_000))
	require.NoError(t, err)
	_, err = tok.Encode(strings.Repeat("a", 30_000), Options{})
	require.ErrorContains(t, err, "the pieces of the tokenizer are too long")
}
