package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// A decoder makes text of tokens, as a chain of steps. Each takes tokens in
// parts: text of the current token, and then its end. So a step works the same
// way on a token at a time, for a stream, as on all tokens at once, and what it
// holds back is what later tokens can still change.
type step interface {
	text(s string, next sink)
	end(next sink)   // a token ends
	flush(next sink) // no token follows
}

// sink takes what a step has made.
type sink interface {
	text(s string)
	end()
}

// chain is steps and where their result goes.
type chain struct {
	steps []step
	out   *strings.Builder
}

// link is the chain from step i on.
type link struct {
	c *chain
	i int
}

func (l link) text(s string) {
	if s == "" {
		return
	}
	if l.i == len(l.c.steps) {
		l.c.out.WriteString(s)
		return
	}
	l.c.steps[l.i].text(s, link{l.c, l.i + 1})
}

func (l link) end() {
	if l.i < len(l.c.steps) {
		l.c.steps[l.i].end(link{l.c, l.i + 1})
	}
}

// push decodes one token more.
func (c *chain) push(token string) {
	l := link{c, 0}
	l.text(token)
	l.end()
}

// flush ends the decoding: all that is held back comes out.
func (c *chain) flush() {
	for i, s := range c.steps {
		s.flush(link{c, i + 1})
	}
}

// whole collects the text of a token.
type whole struct{ held strings.Builder }

func (w *whole) text(s string, next sink) { w.held.WriteString(s) }
func (w *whole) flush(next sink)          {}
func (w *whole) take() string {
	s := w.held.String()
	w.held.Reset()
	return s
}

// replaceStep replaces within each token.
type replaceStep struct {
	whole
	what, with string
}

func (r *replaceStep) end(next sink) {
	next.text(strings.ReplaceAll(r.take(), r.what, r.with))
	next.end()
}

// bytesStep makes text of byte tokens such as <0xE2>: a run of them is UTF-8, or
// else as many U+FFFD as it has bytes. Only the run's end tells.
type bytesStep struct {
	whole
	run []byte
}

func (b *bytesStep) end(next sink) {
	s := b.take()
	if c, ok := byteOf(s); ok {
		b.run = append(b.run, c)
		return
	}
	b.flush(next)
	next.text(s)
	next.end()
}

func (b *bytesStep) flush(next sink) {
	if len(b.run) == 0 {
		return
	}
	if utf8.Valid(b.run) {
		next.text(string(b.run))
		next.end()
	} else {
		for range b.run {
			next.text("\uFFFD")
			next.end()
		}
	}
	b.run = b.run[:0]
}

// fuseStep makes one token of all.
type fuseStep struct{}

func (fuseStep) text(s string, next sink) { next.text(s) }
func (fuseStep) end(next sink)            {}
func (fuseStep) flush(next sink)          { next.end() }

// stripStep takes up to left characters from a token's beginning, and up to
// right from its end.
type stripStep struct {
	char        string
	left, right int
	taken       int
	inside      bool // behind the beginning
	held        int  // characters that may be the end
}

func (s *stripStep) text(t string, next sink) {
	for !s.inside && t != "" {
		rest, ok := strings.CutPrefix(t, s.char)
		if s.inside = !ok || s.taken == s.left; s.inside {
			break
		}
		t = rest
		s.taken++
	}
	if t == "" {
		return
	}
	s.inside = true
	body := t
	tail := 0
	for strings.HasSuffix(body, s.char) {
		body = strings.TrimSuffix(body, s.char)
		tail++
	}
	if body != "" {
		next.text(strings.Repeat(s.char, s.held) + body)
		s.held = 0
	}
	s.held += tail
	if s.held > s.right {
		next.text(strings.Repeat(s.char, s.held-s.right))
		s.held = s.right
	}
}

func (s *stripStep) end(next sink) {
	s.taken, s.inside, s.held = 0, false, 0
	next.end()
}

func (s *stripStep) flush(next sink) {}

// metaspaceStep makes spaces of ▁, and nothing of those in the first token.
type metaspaceStep struct {
	char    string
	drop    bool
	further bool // behind the first token
}

func (m *metaspaceStep) text(s string, next sink) {
	with := " "
	if m.drop && !m.further {
		with = ""
	}
	next.text(strings.ReplaceAll(s, m.char, with))
}

func (m *metaspaceStep) end(next sink) {
	m.further = true
	next.end()
}

func (m *metaspaceStep) flush(next sink) {}

// byteLevelStep makes bytes of the characters of the alphabet, and one token of
// all: it holds back the bytes of a character that is not complete.
type byteLevelStep struct {
	whole
	alphabet *alphabet
	tail     string
}

func (b *byteLevelStep) end(next sink) {
	s := b.tail + b.alphabet.decode(b.take())
	n := cutTail(s)
	b.tail = s[len(s)-n:]
	next.text(lossy(s[:len(s)-n]))
}

func (b *byteLevelStep) flush(next sink) {
	next.text(lossy(b.tail))
	b.tail = ""
	next.end()
}

// suffixStep makes spaces of a suffix that ends words, and nothing of the last one.
type suffixStep struct {
	whole
	suffix string
	last   string
	any    bool
}

func (d *suffixStep) end(next sink) {
	d.emit(" ", next)
	d.last, d.any = d.take(), true
}

func (d *suffixStep) flush(next sink) {
	d.emit("", next)
	d.any = false
}

func (d *suffixStep) emit(with string, next sink) {
	if d.any {
		next.text(strings.ReplaceAll(d.last, d.suffix, with))
		next.end()
	}
}

// joinStep is what stands in place of a decoder: a space between tokens.
type joinStep struct {
	whole
	further bool
}

func (j *joinStep) end(next sink) {
	s := j.take()
	if j.further {
		s = " " + s
	}
	j.further = true
	next.text(s)
	next.end()
}
