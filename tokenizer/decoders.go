package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A decoder converts tokens to text in a chain of steps. Each step receives tokens in pieces: text of the current
// token, followed by its end. So a step works in the same way on a stream of tokens as on all tokens at once, and
// holds back only text that later tokens can still change.
type step interface {
	text(s string, next sink)
	end(next sink)   // a token ends
	flush(next sink) // no more tokens follow
	clone() step     // copies the step with its state; called between tokens
	// bytes returns the bytes that the step makes of a token in the middle of a text, which may be a part of a
	// character. joined is set if an earlier step has joined all tokens into one.
	bytes(s string, joined bool) (out string, joins bool)
}

// sink receives the output of a step.
type sink interface {
	text(s string)
	end()
}

// chain is a sequence of steps and the destination of their output.
type chain struct {
	steps []step
	out   *strings.Builder
}

// link is the part of a chain starting with step i.
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

// push decodes another token.
func (c *chain) push(token string) {
	l := link{c, 0}
	l.text(token)
	l.end()
}

// flush ends decoding, releasing all text held back.
func (c *chain) flush() {
	for i, s := range c.steps {
		s.flush(link{c, i + 1})
	}
}

// clone returns a chain with the same state, writing to out.
func (c *chain) clone(out *strings.Builder) chain {
	steps := make([]step, len(c.steps))
	for i, s := range c.steps {
		steps[i] = s.clone()
	}
	return chain{steps, out}
}

// bytes returns the bytes of a token in the middle of a text.
func (c *chain) bytes(token string) string {
	joined := false
	for _, s := range c.steps {
		var joins bool
		token, joins = s.bytes(token, joined)
		joined = joined || joins
	}
	return token
}

// whole collects the text of a token.
type whole struct{ held []byte }

func (w *whole) text(s string, next sink) { w.held = append(w.held, s...) }
func (w *whole) flush(next sink)          {}
func (w *whole) take() string {
	s := string(w.held)
	w.held = w.held[:0]
	return s
}

// clone returns a copy with its own memory.
func (w whole) clone() whole { return whole{slices.Clone(w.held)} }

// replaceStep replaces text within each token.
type replaceStep struct {
	whole
	what, with string
}

func (r *replaceStep) end(next sink) {
	next.text(strings.ReplaceAll(r.take(), r.what, r.with))
	next.end()
}

func (r *replaceStep) clone() step {
	c := *r
	c.whole = r.whole.clone()
	return &c
}

func (r *replaceStep) bytes(s string, _ bool) (string, bool) {
	return strings.ReplaceAll(s, r.what, r.with), false
}

// bytesStep decodes byte tokens such as <0xE2>: a run of them is UTF-8 or, if invalid, one U+FFFD per byte. This is
// only known at the end of the run.
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

func (b *bytesStep) clone() step { return &bytesStep{b.whole.clone(), slices.Clone(b.run)} }

func (b *bytesStep) bytes(s string, _ bool) (string, bool) {
	if c, ok := byteOf(s); ok {
		s = string([]byte{c})
	}
	return s, false
}

// fuseStep joins all tokens into one.
type fuseStep struct{}

func (fuseStep) text(s string, next sink) { next.text(s) }
func (fuseStep) end(next sink)            {}
func (fuseStep) flush(next sink)          { next.end() }
func (fuseStep) clone() step              { return fuseStep{} }

func (fuseStep) bytes(s string, _ bool) (string, bool) { return s, true }

// stripStep removes up to left characters from a token's beginning, and up to right from its end.
type stripStep struct {
	char        string
	left, right int
	taken       int
	inside      bool // after the beginning
	held        int  // number of characters that may be the end
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

func (s *stripStep) clone() step {
	c := *s
	return &c
}

// bytes strips only if every token is stripped, not just the whole text.
func (s *stripStep) bytes(t string, joined bool) (string, bool) {
	if joined {
		return t, false
	}
	for range s.left {
		t = strings.TrimPrefix(t, s.char)
	}
	for range s.right {
		t = strings.TrimSuffix(t, s.char)
	}
	return t, false
}

// metaspaceStep replaces ▁ by a space, or removes it in the first token.
type metaspaceStep struct {
	char    string
	drop    bool
	further bool // after the first token
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

func (m *metaspaceStep) clone() step {
	c := *m
	return &c
}

func (m *metaspaceStep) bytes(s string, _ bool) (string, bool) {
	return strings.ReplaceAll(s, m.char, " "), false
}

// byteLevelStep converts characters of the alphabet to bytes, and joins all tokens into one. It holds back the
// bytes of an incomplete character.
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

func (b *byteLevelStep) clone() step { return &byteLevelStep{b.whole.clone(), b.alphabet, b.tail} }

func (b *byteLevelStep) bytes(s string, _ bool) (string, bool) { return b.alphabet.decode(s), true }

// suffixStep replaces a suffix ending words by a space, and removes the last one.
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

func (d *suffixStep) clone() step {
	c := *d
	c.whole = d.whole.clone()
	return &c
}

func (d *suffixStep) bytes(s string, _ bool) (string, bool) {
	return strings.ReplaceAll(s, d.suffix, " "), false
}

// joinStep puts a space between tokens, if there is no decoder.
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

func (j *joinStep) clone() step { return &joinStep{j.whole.clone(), j.further} }

func (j *joinStep) bytes(s string, _ bool) (string, bool) { return " " + s, false }

// cleanUpStep removes spaces before punctuation and English endings, in the text of all tokens. It holds back text
// from the last space with which a replacement may begin, until the longest ending could have followed.
type cleanUpStep struct{ held string }

func (c *cleanUpStep) text(s string, next sink) {
	c.held += s
	at := len(c.held)
	if last := strings.LastIndexByte(c.held, ' '); last >= 0 && at-last < len(" n't") {
		// A space after another one, or after an apostrophe, may be the end of a replacement.
		for at = last; at > 0 && (c.held[at] != ' ' || c.held[at-1] == ' ' || c.held[at-1] == '\''); {
			at--
		}
	}
	next.text(cleaned(c.held[:at]))
	c.held = c.held[at:]
}

func (c *cleanUpStep) end(next sink) {}

func (c *cleanUpStep) flush(next sink) {
	next.text(cleaned(c.held))
	c.held = ""
	next.end()
}

func (c *cleanUpStep) clone() step { return &cleanUpStep{c.held} }

func (c *cleanUpStep) bytes(s string, _ bool) (string, bool) { return s, true }

func cleaned(s string) string {
	for _, ending := range []string{".", "?", "!", ",", "' ", "n't", "'m", "'s", "'ve", "'re"} {
		s = strings.ReplaceAll(s, " "+ending, strings.TrimSuffix(ending, " "))
	}
	return s
}
