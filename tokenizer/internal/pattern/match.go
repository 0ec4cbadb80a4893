package pattern

import (
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
)

// ErrBudget reports that matching took too many steps.
var ErrBudget = errors.New("the pattern takes too many steps on this text")

// Limits on the steps of finding all matches in a text. Published patterns take fewer than 10 per byte; the limit
// stops patterns taking exponential time.
const (
	stepsPerByte = 300
	stepsMore    = 1 << 20
)

// frame is a backtracking point.
type frame struct {
	pc, pos int
	// least is the earliest end of a loop, which gives back one rune at a time until then; -1 for frames of other
	// instructions.
	least int
	// mask holds the remaining alternatives of a choice.
	mask uint64
}

// maxKept is the maximum number of frames in memory kept for the next text.
const maxKept = 1 << 12

// machine holds the memory of a search.
type machine struct {
	code  []inst
	text  string
	steps int
	stack []frame
}

// Each calls f with the bounds of every match in text, from left to right, while f returns nil. It returns the
// first error of f, or an error wrapping [ErrBudget]. An empty match does not follow immediately after another
// match.
func (p *Pattern) Each(text string, f func(start, end int) error) error {
	m, _ := p.machines.Get().(*machine)
	if m == nil {
		m = &machine{code: p.code}
	}
	m.text, m.steps, m.stack = text, stepsPerByte*len(text)+stepsMore, m.stack[:0]
	defer func() {
		if m.text = ""; cap(m.stack) <= maxKept {
			p.machines.Put(m)
		}
	}()
	last := -1 // end of the previous match
	for at := 0; at <= len(text); {
		first := 256
		if at < len(text) {
			first = int(text[at])
		}
		end := -1
		if p.begin[first] {
			end = m.match(0, at)
		}
		if m.steps < 0 {
			return fmt.Errorf("pattern: %s: %w", quoted.Text(p.src), ErrBudget)
		}
		if end < 0 || end == at && last == at {
			at += runeLength(text, at)
			continue
		}
		if err := f(at, end); err != nil {
			return err
		}
		last, at = end, end
	}
	return nil
}

// runeLength returns the length of the rune at a position, and 1 at the end.
func runeLength(text string, at int) int {
	if at >= len(text) || text[at] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(text[at:])
	return n
}

// in returns the length of the rune at pos if it is in s, and 0 otherwise.
func (m *machine) in(s *set, pos int) int {
	if pos >= len(m.text) {
		return 0
	}
	if b := m.text[pos]; b < utf8.RuneSelf {
		if s.bits[b>>6]&(1<<(b&63)) != 0 {
			return 1
		}
		return 0
	}
	r, n := utf8.DecodeRuneInString(m.text[pos:])
	if s.has(r) {
		return n
	}
	return 0
}

// match runs the code from pc at pos and returns the end of the match, or -1 if there is none.
func (m *machine) match(pc, pos int) int {
	base := len(m.stack)
	for {
		if m.steps--; m.steps < 0 {
			return -1
		}
		ok := true
		switch i := &m.code[pc]; i.op {
		case opMatch:
			m.stack = m.stack[:base]
			return pos
		case opJump:
			pc = i.to
		case opSet:
			n := m.in(i.set, pos)
			ok = n > 0
			pos += n
			pc++
		case opLoop:
			pos, ok = m.loop(i, pc, pos)
			pc++
		case opChoice:
			first := 256
			if pos < len(m.text) {
				first = int(m.text[pos])
			}
			if mask := i.first[first]; mask == 0 {
				ok = false
			} else {
				if rest := mask & (mask - 1); rest != 0 {
					m.stack = append(m.stack, frame{pc: pc, pos: pos, least: -1, mask: rest})
				}
				pc = i.targets[bits.TrailingZeros64(mask)]
			}
		case opAnchor:
			ok = m.anchored(i, pos)
			pc++
		case opSub:
			pos, ok = m.sub(i, pc, pos)
			pc = i.to
		}
		if ok {
			continue
		}
		if len(m.stack) == base {
			return -1
		}
		pc, pos = m.back()
	}
}

// back returns where to continue after a failure.
func (m *machine) back() (pc, pos int) {
	f := &m.stack[len(m.stack)-1]
	switch {
	case f.mask != 0: // a choice
		pc, pos = m.code[f.pc].targets[bits.TrailingZeros64(f.mask)], f.pos
		if f.mask &= f.mask - 1; f.mask == 0 {
			m.stack = m.stack[:len(m.stack)-1]
		}
	case m.code[f.pc].kind == lazy: // a lazy loop taking one more rune
		i := &m.code[f.pc]
		pc, pos = f.pc+1, f.pos
		n := m.in(i.set, pos)
		if f.least--; n == 0 || f.least == 0 {
			m.stack = m.stack[:len(m.stack)-1]
		} else {
			f.pos += n
		}
	default: // a greedy loop giving back one rune
		_, n := utf8.DecodeLastRuneInString(m.text[:f.pos])
		f.pos -= n
		pc, pos = f.pc+1, f.pos
		if f.pos <= f.least {
			m.stack = m.stack[:len(m.stack)-1]
		}
	}
	return pc, pos
}

// loop matches the runes of a loop at pos, and pushes a frame for its other matches.
func (m *machine) loop(i *inst, pc, pos int) (int, bool) {
	count, least, begin := 0, pos, pos
	for i.max < 0 || count < i.max {
		if count == i.min {
			least = pos
			if i.kind == lazy {
				break
			}
		}
		if pos < len(m.text) && m.text[pos] < utf8.RuneSelf { // inlined from in
			b := m.text[pos]
			if i.set.bits[b>>6]&(1<<(b&63)) == 0 {
				break
			}
			pos++
		} else if n := m.in(i.set, pos); n > 0 {
			pos += n
		} else {
			break
		}
		count++
	}
	m.steps -= (pos - begin) >> 2
	if count < i.min {
		return pos, false
	}
	if count == i.min {
		least = pos
	}
	switch {
	case i.kind == lazy:
		// The frame begins at the next rune; least counts the runes that may still be taken, and is negative without a
		// limit.
		if n := m.in(i.set, pos); n > 0 && i.max != i.min {
			more := -1
			if i.max >= 0 {
				more = i.max - i.min
			}
			m.stack = append(m.stack, frame{pc: pc, pos: pos + n, least: more})
		}
	case i.kind == greedy && pos > least:
		m.stack = append(m.stack, frame{pc: pc, pos: pos, least: least})
	}
	return pos, true
}

// sub matches a lookaround or an atomic group at pos.
func (m *machine) sub(i *inst, pc, pos int) (int, bool) {
	at := pos
	for range i.behind {
		_, n := utf8.DecodeLastRuneInString(m.text[:at])
		if n == 0 {
			return pos, i.negated
		}
		at -= n
	}
	end := m.match(pc+1, at)
	if i.look {
		return pos, end >= 0 != i.negated
	}
	return end, end >= 0
}

// anchored reports whether an anchor matches at pos.
func (m *machine) anchored(i *inst, pos int) bool {
	switch i.anchor {
	case 'A', 'G':
		return pos == 0
	case 'z':
		return pos == len(m.text)
	case 'Z':
		return m.text[pos:] == "" || m.text[pos:] == "\n"
	case '^':
		return pos == 0 || m.text[pos-1] == '\n' && pos < len(m.text)
	case '$':
		return pos == len(m.text) || m.text[pos] == '\n'
	}
	before, _ := utf8.DecodeLastRuneInString(m.text[:pos])
	after, _ := utf8.DecodeRuneInString(m.text[pos:])
	boundary := (pos > 0 && i.set.has(before)) != (pos < len(m.text) && i.set.has(after))
	return boundary == (i.anchor == 'b')
}
