package tokenizer

import "strings"

// Stream decodes one token after another. What [Stream.Push] and [Stream.Flush]
// return, put together, is what [Tokenizer.Decode] returns for all the ids: a
// character whose bytes are in several tokens comes out whole, with the last of
// them. One goroutine uses a stream.
type Stream struct {
	t     *Tokenizer
	chain chain
	out   strings.Builder
	all   bool
}

// Stream begins to decode.
func (t *Tokenizer) Stream() *Stream {
	s := &Stream{t: t}
	s.chain = chain{steps: t.decoder(), out: &s.out}
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

func (s *Stream) take() string {
	text := s.out.String()
	s.out.Reset()
	return text
}
