package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Stream decodes tokens incrementally. The concatenated results of [Stream.Push] and [Stream.Flush] equal the
// result of [Tokenizer.Decode] for all ids: a character spread over several tokens is returned as a whole with the
// last of them. A Stream must not be used concurrently.
type Stream struct {
	t     *Tokenizer
	chain chain
	out   strings.Builder
	all   bool
	told  string // text returned before it was certain; the next text continues after it
}

// Stream returns a new Stream.
func (t *Tokenizer) Stream() *Stream {
	s := &Stream{t: t}
	s.chain = chain{steps: t.decoder(), out: &s.out}
	return s
}

// Continue returns a Stream for the tokens following ids. Its text is the part of [Tokenizer.Decode] of all tokens
// beyond the text of ids. So it includes the space before a first word, which is dropped at the beginning of a
// text. If new tokens complete a character begun by ids, the text includes the whole character.
func (t *Tokenizer) Continue(ids []int32) *Stream {
	s := t.Stream()
	for _, id := range ids {
		s.Push(id)
	}
	s.told = s.rest()
	return s
}

// Push decodes another token and returns the text that has become certain, "" if later tokens can still change it.
func (s *Stream) Push(id int32) string {
	if text, ok := s.t.Text(id); ok && (s.all || !s.t.special[id]) {
		s.chain.push(text)
	}
	return s.take()
}

// Flush ends the text and returns the text held back.
func (s *Stream) Flush() string {
	s.chain.flush()
	return s.take()
}

// Held returns the text that Flush would return, without changing the stream.
func (s *Stream) Held() string { return beyond(s.told, s.rest()) }

// Settle returns the characters that Flush would return, up to an incomplete one, and continues decoding. Later
// texts follow them, provided that further tokens do not change them.
func (s *Stream) Settle() string {
	whole, _, _ := strings.Cut(s.rest(), "\ufffd")
	more, ok := strings.CutPrefix(whole, s.told)
	if ok {
		s.told = whole
		return more
	}
	return ""
}

// rest returns the text held back by the steps.
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

// beyond returns text without its common prefix with told, in whole characters.
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
