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
	stream *tokenizer.Stream
	before int
}

// next returns the offset of the next token. A token that ends a character has the offset of the character.
func (o *offsets) next(id int32) int {
	at := o.before + utf8.RuneCountInString(strings.TrimRight(o.stream.Held(), "\ufffd"))
	o.before += utf8.RuneCountInString(o.stream.Push(id))
	return at
}
