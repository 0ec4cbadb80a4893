package generate

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gomoe/gomoe/tokenizer"
)

// Stops passes text on, up to the first of some texts at which to stop. What may be the beginning of one of them is
// held back until it is known.
type Stops struct {
	texts []stopText
	marks map[int32]string // of the special tokens that a text has, in place of their names
	held  []byte
	ended bool
	begun string // the text of a character that lacks bytes, as it is if they do not come
	late  string // the marks after it
}

// stopText is a text at which to stop, and how much of it the text so far ends with: the algorithm of Knuth, Morris and
// Pratt, which looks at each byte once.
type stopText struct {
	text  string
	falls []int // by length of a beginning: the longest shorter beginning that it ends with
	have  int
}

// NewStops returns a Stops for texts that are not empty. A special token of t in a text is found where the model writes
// it, too, which is no part of the text that people read; t may be nil.
func NewStops(texts []string, t *tokenizer.Tokenizer) *Stops {
	s := &Stops{marks: map[int32]string{}}
	for _, text := range texts {
		s.add(text)
		if t == nil {
			continue
		}
		marked := ""
		for _, p := range t.Segments(text) {
			if p.ID < 0 {
				marked += p.Text
				continue
			}
			s.marks[p.ID] = mark(p.ID)
			marked += s.marks[p.ID]
		}
		if marked != text {
			s.add(marked)
		}
	}
	return s
}

// markBegin and markEnd enclose a mark. No text has these bytes, nor those of a mark's digits, since text is UTF-8.
const markBegin, markEnd = "\xff", "\xfe"

// mark returns what stands for a special token in marked text.
func mark(id int32) string {
	digits := []byte(strconv.FormatInt(int64(id), 4))
	for i := range digits {
		digits[i] += 0xf8 - '0'
	}
	return markBegin + string(digits) + markEnd
}

func (s *Stops) add(text string) {
	falls := make([]int, len(text)+1)
	for i, n := 1, 0; i < len(text); i++ {
		for n > 0 && text[i] != text[n] {
			n = falls[n]
		}
		if text[i] == text[n] {
			n++
		}
		falls[i+1] = n
	}
	s.texts = append(s.texts, stopText{text: text, falls: falls})
}

// Token is Push for a token more, whose text is that of a stream.
func (s *Stops) Token(id int32, from *tokenizer.Stream) (pass string, stopped bool) {
	text := ""
	if mark, marked := s.marks[id]; marked {
		if stop := s.whole(from.Held()) + mark; s.would(stop) {
			return s.Push(stop)
		}
		text = from.Settle()
		if s.begun = from.Held(); s.begun == "" {
			text += mark
		} else {
			s.late += mark
		}
	}
	if more := from.Push(id); more != "" {
		text += s.whole(more)
		s.begun, s.late = "", ""
	}
	pass, stopped = s.Push(text)
	if stopped || len(s.texts) == 0 {
		return pass, stopped
	}
	// Text that further tokens could change counts, since no token follows a stop.
	if held := from.Held(); held != "" && s.would(s.whole(held)) {
		last, _ := s.Push(s.whole(held))
		return pass + last, true
	}
	return pass, false
}

// whole returns text with the late marks, after the character that was begun before them.
func (s *Stops) whole(text string) string {
	if s.late == "" {
		return text
	}
	n := len(s.begun)
	if !strings.HasPrefix(text, s.begun) { // it was completed
		_, n = utf8.DecodeRuneInString(text)
	}
	return text[:n] + s.late + text[n:]
}

// would reports whether Push of a text would stop.
func (s *Stops) would(text string) bool {
	c := Stops{texts: slices.Clone(s.texts), held: slices.Clone(s.held)}
	_, stopped := c.Push(text)
	return stopped
}

// Push returns what can be passed on of the text so far, and whether one of the texts has come. After that there is
// nothing more to pass on.
func (s *Stops) Push(text string) (pass string, stopped bool) {
	if s.ended {
		return "", true
	}
	most := 0 // bytes that may be the beginning of a text
	for i := range len(text) {
		s.held = append(s.held, text[i])
		most = 0
		whole := 0
		for j := range s.texts {
			t := &s.texts[j]
			t.advance(text[i])
			if most = max(most, t.have); t.have == len(t.text) {
				whole = max(whole, t.have)
			}
		}
		if whole > 0 {
			s.ended = true
			return s.pass(len(s.held) - whole), true
		}
	}
	if text == "" {
		return "", false
	}
	return s.pass(len(s.held) - most), false
}

func (t *stopText) advance(b byte) {
	for t.have > 0 && (t.have == len(t.text) || t.text[t.have] != b) {
		t.have = t.falls[t.have]
	}
	if t.text[t.have] == b {
		t.have++
	}
}

// pass returns the first n bytes that are held, without marks.
func (s *Stops) pass(n int) string {
	text := string(s.held[:n])
	s.held = s.held[n:]
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(text, markBegin)
		if !ok && out.Len() == 0 {
			return text
		}
		if out.WriteString(before); !ok {
			return out.String()
		}
		_, text, _ = strings.Cut(rest, markEnd)
	}
}

// Rest returns what is held back, at the end of the text.
func (s *Stops) Rest() string {
	if s.ended {
		return ""
	}
	return s.pass(len(s.held))
}
