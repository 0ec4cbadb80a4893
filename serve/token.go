package serve

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gomoe/gomoe/tokenizer"
)

// tokenText returns the text of one token within a text. As in OpenAI's interface, a token whose bytes are no
// characters is written as bytes:\xf0\x9f.
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

// offsets tells where tokens begin in a text, in characters.
type offsets struct {
	tok    *tokenizer.Tokenizer
	stream *tokenizer.Stream
	before int
}

// next returns the offset of the next token. A token that goes on with a character has the offset of the character, and so has
// a special token within one.
func (o *offsets) next(id int32) int {
	text := o.stream.Held()
	if b := o.tok.Bytes(id); o.tok.IsSpecial(id) || len(b) > 0 && !utf8.RuneStart(b[0]) {
		text = strings.TrimRight(text, "\ufffd")
	}
	at := o.before + utf8.RuneCountInString(text)
	o.before += utf8.RuneCountInString(o.stream.Push(id))
	return at
}
