package serve

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gomoe/gomoe/tokenizer"
)

// tokenText returns the text of one token within a text. As in OpenAI's interface, a token that is not valid UTF-8
// is written as bytes:\xf0\x9f.
func tokenText(t *tokenizer.Tokenizer, id int32) string {
	b := t.Bytes(id)
	if utf8.Valid(b) {
		return string(b)
	}
	var text strings.Builder
	text.WriteString("bytes:")
	for _, x := range b {
		fmt.Fprintf(&text, `\x%02x`, x)
	}
	return text.String()
}

// offsets computes the offsets of tokens in a text, in characters.
type offsets struct {
	tok    *tokenizer.Tokenizer
	stream *tokenizer.Stream
	echo   []rune // text of a prompt, containing names of special tokens
	before int
}

// next returns the offset of the next token. A token continuing a character has the offset of the character, as has
// a special token within one.
func (o *offsets) next(id int32) int {
	text := o.stream.Held()
	if b := o.tok.Bytes(id); o.tok.IsSpecial(id) || len(b) > 0 && !utf8.RuneStart(b[0]) {
		text = strings.TrimRight(text, "\ufffd")
	}
	at := o.before + utf8.RuneCountInString(text)
	if name, _ := o.tok.Text(id); o.tok.IsSpecial(id) {
		for _, space := range []int{0, 1} { // some tokenizers add a space after a special token
			if begin := at - space; begin >= 0 && o.has([]rune(name), begin) {
				o.before += utf8.RuneCountInString(name) - space
				at = begin
				break
			}
		}
	}
	o.before += utf8.RuneCountInString(o.stream.Push(id))
	return at
}

// has reports whether the prompt contains a special token's name at the given offset.
func (o *offsets) has(name []rune, at int) bool {
	return at+len(name) <= len(o.echo) && slices.Equal(name, o.echo[at:at+len(name)])
}
