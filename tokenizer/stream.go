package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Stream decodes one token after another. The texts returned by [Stream.Push] and
// [Stream.Flush], put together, are what [Tokenizer.Decode] returns for all the
// ids: a character whose bytes are in several tokens comes out whole, with the
// last of them. One goroutine uses a stream.
type Stream struct {
	t     *Tokenizer
	chain chain
	out   strings.Builder
	all   bool
	told  string // text that was returned before it was certain; the next text begins after it
}

// Stream begins to decode.
func (t *Tokenizer) Stream() *Stream {
	s := &Stream{t: t}
	s.chain = chain{steps: t.decoder(), out: &s.out}
	return s
}

// Continue begins to decode the tokens that follow ids. Its text is what
// [Tokenizer.Decode] returns for all tokens beyond the text of ids: the space
// before a word is there, though it would be left out at the beginning of a text.
// Where new tokens complete a character that ids have begun, the text has the
// whole character.
func (t *Tokenizer) Continue(ids []int32) *Stream {
	s := t.Stream()
	for _, id := range ids {
		s.Push(id)
	}
	s.told = s.rest()
	return s
}

// Push returns the text that is certain after a token more, "" where later tokens
// can still change it.
func (s *Stream) Push(id int32) string {
	if text, ok := s.t.Text(id); ok && (s.all || !s.t.special[id]) {
		s.chain.push(text)
	}
	return s.take()
}

// Flush ends the text, and returns what was held back.
func (s *Stream) Flush() string {
	s.chain.flush()
	return s.take()
}

// Held returns the text that Flush would return. Nothing changes.
func (s *Stream) Held() string { return beyond(s.told, s.rest()) }

// Settle returns the characters that Flush would return, up to one of which bytes are missing, and decodes on. Later
// texts begin after them, as far as the tokens that follow have not changed them.
func (s *Stream) Settle() string {
	whole, _, _ := strings.Cut(s.rest(), "\ufffd")
	more, ok := strings.CutPrefix(whole, s.told)
	if ok {
		s.told = whole
		return more
	}
	return ""
}

// rest returns what the steps hold back.
func (s *Stream) rest() string {
	var out strings.Builder
	c := s.chain.clone(&out)
	c.flush()
	return out.String()
}

func (s *Stream) take() string {
	text := s.out.String()
	s.out.Reset()
	if s.told == "" || text == "" {
		return text
	}
	rest := beyond(s.told, text)
	if s.told = s.told[min(len(s.told), len(text)-len(rest)):]; rest != "" {
		s.told = ""
	}
	return rest
}

// beyond returns text without the characters that it begins with as told does.
func beyond(told, text string) string {
	for told != "" && text != "" {
		a, n := utf8.DecodeRuneInString(told)
		if b, _ := utf8.DecodeRuneInString(text); a != b {
			break
		}
		told, text = told[n:], text[n:]
	}
	return text
}
