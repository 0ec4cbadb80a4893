package pattern

import (
	"fmt"
	"reflect"
	"sync"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
)

// op is the operation of an instruction.
type op uint8

const (
	opSet    op = iota // match one rune of set
	opLoop             // match runes of set, from min to max times
	opChoice           // try the targets in order
	opJump             // continue at to
	opAnchor           // match the empty string at a position of kind anchor
	opSub              // match the instructions up to to, for a lookaround or an atomic group
	opMatch            // the end
)

type inst struct {
	op       op
	set      *set // opAnchor: the characters of words
	min, max int
	kind     kind
	to       int
	targets  []int
	first    *[257]uint64 // targets that can begin with a byte; 256 stands for the end of the text
	anchor   byte
	look     bool // opSub: consume nothing
	negated  bool
	behind   int // opSub: number of runes before the position where the match begins
}

// Pattern is a compiled regular expression. It is safe for concurrent use.
type Pattern struct {
	src  string
	code []inst
	// begin holds the possible first bytes of a match; 256 stands for an empty match.
	begin    [257]bool
	machines sync.Pool // of *machine
}

// Compile compiles a regular expression. An error names the expression, the byte and the mistake.
func Compile(src string) (*Pattern, error) {
	p := &parser{src: src}
	if len(src) > maxBytes {
		return nil, p.fail("%d bytes, want at most %d", len(src), maxBytes)
	}
	if !utf8.ValidString(src) {
		return nil, p.fail("invalid UTF-8")
	}
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if p.more() {
		return nil, p.fail("a closing parenthesis without a group")
	}
	c := compiler{sets: map[string]*set{}}
	if err := c.node(n); err != nil {
		return nil, fmt.Errorf("pattern: %s: %w", quoted.Text(src), err)
	}
	c.emit(inst{op: opMatch})
	out := &Pattern{src: src, code: c.code}
	begin := starts(n)
	for i := range out.begin {
		out.begin[i] = begin.nullable || begin.bytes[i]
	}
	return out, nil
}

func (p *Pattern) String() string { return p.src }

// Same reports whether two patterns are the same but for their spelling, such as a newline and the escape \n, or
// groups that change nothing.
func Same(a, b string) bool {
	if a == b {
		return true
	}
	x, err := Compile(a)
	if err != nil {
		return false
	}
	y, err := Compile(b)
	return err == nil && reflect.DeepEqual(x.code, y.code)
}

type compiler struct {
	code []inst
	sets map[string]*set
}

func (c *compiler) emit(i inst) int {
	c.code = append(c.code, i)
	return len(c.code) - 1
}

func (c *compiler) set(s spans) *set {
	key := fmt.Sprint(s)
	if c.sets[key] == nil {
		c.sets[key] = newSet(s)
	}
	return c.sets[key]
}

func (c *compiler) node(n node) error {
	if len(c.code) > maxNodes {
		return fmt.Errorf("more than %d instructions, want smaller counts of repetitions", maxNodes)
	}
	switch n := n.(type) {
	case runes:
		c.emit(inst{op: opSet, set: c.set(n.set)})
	case seq:
		for _, m := range n.of {
			if err := c.node(m); err != nil {
				return err
			}
		}
	case anchor:
		i := inst{op: opAnchor, anchor: n.kind}
		if n.kind == 'b' || n.kind == 'B' {
			i.set = c.set(outsideClass(wordRunes()))
		}
		c.emit(i)
	case choice:
		return c.choice(n)
	case repeat:
		return c.repeat(n)
	case atomic:
		return c.sub(inst{op: opSub}, n.of)
	case look:
		i := inst{op: opSub, look: true, negated: n.negated}
		if n.behind {
			w, ok := width(n.of)
			if !ok || w == 0 {
				return fmt.Errorf("looks behind at matches of several lengths, want one length")
			}
			i.behind = w
		}
		return c.sub(i, n.of)
	}
	return nil
}

// sub emits i, followed by the instructions of n and a match.
func (c *compiler) sub(i inst, n node) error {
	at := c.emit(i)
	if err := c.node(n); err != nil {
		return err
	}
	c.emit(inst{op: opMatch})
	c.code[at].to = len(c.code)
	return nil
}

func (c *compiler) choice(n choice) error {
	if len(n.of) > 64 {
		// Nest choices: the first 63 alternatives, and the rest.
		n = choice{append(append([]node(nil), n.of[:63]...), choice{n.of[63:]})}
	}
	at := c.emit(inst{op: opChoice, first: &[257]uint64{}})
	var ends []int
	for i, m := range n.of {
		s := starts(m)
		for b := range s.bytes {
			if s.bytes[b] || s.nullable {
				c.code[at].first[b] |= 1 << i
			}
		}
		c.code[at].targets = append(c.code[at].targets, len(c.code))
		if err := c.node(m); err != nil {
			return err
		}
		ends = append(ends, c.emit(inst{op: opJump}))
	}
	for _, e := range ends {
		c.code[e].to = len(c.code)
	}
	return nil
}

func (c *compiler) repeat(n repeat) error {
	if one, ok := n.of.(runes); ok {
		c.emit(inst{op: opLoop, set: c.set(one.set), min: n.min, max: n.max, kind: n.kind})
		return nil
	}
	if n.kind == possessive {
		n.kind = greedy
		return c.node(atomic{n})
	}
	for range n.min {
		if err := c.node(n.of); err != nil {
			return err
		}
	}
	again := func() choice { // one more repetition, or none
		alternatives := choice{[]node{n.of, seq{}}}
		if n.kind == lazy {
			alternatives.of[0], alternatives.of[1] = alternatives.of[1], alternatives.of[0]
		}
		return alternatives
	}
	if n.max < 0 {
		if starts(n.of).nullable {
			return fmt.Errorf("repeats without limit what can match nothing")
		}
		at := len(c.code)
		if err := c.choice(again()); err != nil {
			return err
		}
		// The jump after the alternative with a body goes back to the choice.
		end := c.code[at].targets[1] - 1
		if n.kind == lazy {
			end = len(c.code) - 1
		}
		c.code[end].to = at
		return nil
	}
	var optional node = seq{}
	for range n.max - n.min {
		m := seq{[]node{n.of, optional}}
		o := choice{[]node{m, seq{}}}
		if n.kind == lazy {
			o = choice{[]node{seq{}, m}}
		}
		optional = o
	}
	return c.node(optional)
}

// start describes the possible beginnings of a match.
type start struct {
	bytes    [257]bool // first byte of a non-empty match
	nullable bool      // a match can be empty
}

func starts(n node) start {
	var out start
	merge := func(s start) {
		for i, b := range s.bytes {
			out.bytes[i] = out.bytes[i] || b
		}
	}
	switch n := n.(type) {
	case runes:
		for _, r := range n.set {
			for c := r.lo; c <= min(r.hi, 0x7f); c++ {
				out.bytes[c] = true
			}
			if r.hi >= utf8.RuneSelf {
				for b := utf8.RuneSelf; b < 256; b++ {
					out.bytes[b] = true
				}
			}
		}
	case seq:
		out.nullable = true
		for _, m := range n.of {
			s := starts(m)
			merge(s)
			if !s.nullable {
				out.nullable = false
				break
			}
		}
	case choice:
		for _, m := range n.of {
			s := starts(m)
			merge(s)
			out.nullable = out.nullable || s.nullable
		}
	case repeat:
		out = starts(n.of)
		out.nullable = out.nullable || n.min == 0
	case atomic:
		return starts(n.of)
	default: // lookarounds and anchors
		out.nullable = true
	}
	return out
}

// width returns the number of runes in a match of n, and whether it is the same for every match.
func width(n node) (int, bool) {
	switch n := n.(type) {
	case runes:
		return 1, true
	case seq:
		sum := 0
		for _, m := range n.of {
			w, ok := width(m)
			if !ok {
				return 0, false
			}
			sum += w
		}
		return sum, true
	case choice:
		all := -1
		for _, m := range n.of {
			w, ok := width(m)
			if !ok || all >= 0 && w != all {
				return 0, false
			}
			all = w
		}
		return all, true
	case repeat:
		w, ok := width(n.of)
		return w * n.min, ok && n.min == n.max
	case atomic:
		return width(n.of)
	}
	return 0, true
}
