package pattern

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gomoe/gomoe/internal/quoted"
)

// node is a node of the syntax tree.
type node interface{}

type (
	runes  struct{ set spans } // one rune of the set
	seq    struct{ of []node }
	choice struct{ of []node } // alternatives in order
	repeat struct {
		of       node
		min, max int // max < 0: no limit
		kind     kind
	}
	atomic struct{ of node }
	look   struct {
		of              node
		behind, negated bool
	}
	anchor struct{ kind byte } // ^ $ A z Z b B
)

// kind is the order in which a repetition tries its counts.
type kind int

const (
	greedy     kind = iota // most first
	lazy                   // least first
	possessive             // most only
)

// Limits of a pattern. Published ones have up to 700 bytes, and 4 levels.
const (
	maxBytes  = 1 << 14
	maxDepth  = 50
	maxRepeat = 1000
	maxNodes  = 1 << 14 // instructions, after expanding repetitions
)

type parser struct {
	src   string
	at    int
	fold  bool // (?i)
	dot   bool // (?m) in Oniguruma and (?s) elsewhere: a dot matches newlines
	depth int
}

func (p *parser) fail(format string, a ...any) error {
	return fmt.Errorf("pattern: %s: byte %d: %s", quoted.Text(p.src), p.at, fmt.Sprintf(format, a...))
}

func (p *parser) more() bool { return p.at < len(p.src) }

func (p *parser) has(s string) bool {
	if strings.HasPrefix(p.src[p.at:], s) {
		p.at += len(s)
		return true
	}
	return false
}

// next returns the next rune, or 0 at the end.
func (p *parser) next() rune {
	r, n := utf8.DecodeRuneInString(p.src[p.at:])
	p.at += n
	if n == 0 {
		return 0
	}
	return r
}

func (p *parser) peek() byte {
	if p.more() {
		return p.src[p.at]
	}
	return 0
}

// alternatives parses up to the end or a closing parenthesis.
func (p *parser) alternatives() (node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail("groups nest deeper than %d", maxDepth)
	}
	fold, dot := p.fold, p.dot
	defer func() { p.depth--; p.fold, p.dot = fold, dot }()
	var all []node
	var one seq
	alternative := func() {
		if len(one.of) == 1 {
			if c, ok := one.of[0].(choice); ok { // a group of alternatives
				all = append(all, c.of...)
				return
			}
		}
		all = append(all, one)
	}
	for p.more() && p.peek() != ')' {
		if p.has("|") {
			alternative()
			one = seq{}
			continue
		}
		n, err := p.repeated()
		if err != nil {
			return nil, err
		}
		if n != nil {
			one.of = append(one.of, n)
		}
	}
	if all == nil {
		return one, nil
	}
	alternative()
	return choice{all}, nil
}

func (p *parser) repeated() (node, error) {
	n, err := p.atom()
	if err != nil {
		return nil, err
	}
	for p.more() {
		r := repeat{of: n}
		counted := false
		switch p.peek() {
		case '*':
			r.min, r.max = 0, -1
		case '+':
			r.min, r.max = 1, -1
		case '?':
			r.min, r.max = 0, 1
		case '{':
			var ok bool
			if r.min, r.max, ok = p.counts(); !ok {
				return n, nil // a literal brace
			}
			counted = true
		default:
			return n, nil
		}
		if n == nil {
			return nil, p.fail("nothing before %q to repeat", p.peek())
		}
		if !counted {
			p.at++
		}
		if r.min > maxRepeat || r.max > maxRepeat {
			return nil, p.fail("a repetition of more than %d", maxRepeat)
		}
		if r.max >= 0 && r.max < r.min {
			return nil, p.fail("a repetition from %d to %d", r.min, r.max)
		}
		switch {
		case p.has("?"):
			r.kind = lazy
		case !counted && p.has("+"):
			r.kind = possessive
		}
		n = r
	}
	return n, nil
}

// counts parses {n}, {n,}, {,m} or {n,m}; it consumes nothing if there is none.
func (p *parser) counts() (lo, hi int, ok bool) {
	end := strings.IndexByte(p.src[p.at:], '}')
	if end < 0 {
		return 0, 0, false
	}
	a, b, two := strings.Cut(p.src[p.at+1:p.at+end], ",")
	number := func(s string, empty int) (int, bool) {
		if s == "" {
			return empty, true
		}
		n, err := strconv.ParseUint(s, 10, 30)
		return int(n), err == nil
	}
	lo, ok1 := number(a, 0)
	hi, ok2 := lo, true
	if two {
		hi, ok2 = number(b, -1)
	}
	if !ok1 || !ok2 || a == "" && b == "" {
		return 0, 0, false
	}
	p.at += end + 1
	return lo, hi, true
}

func (p *parser) literal(s spans) node {
	if p.fold {
		s = s.folded()
	}
	return runes{s}
}

func (p *parser) atom() (node, error) {
	switch {
	case p.has("(?#"):
		for p.more() && p.next() != ')' {
		}
		return nil, nil
	case p.has("("):
		return p.group()
	case p.has("["):
		s, err := p.class(0)
		if err != nil {
			return nil, err
		}
		return p.literal(s), nil
	case p.has("."):
		if p.dot {
			return runes{spans{{0, unicode.MaxRune}}}, nil
		}
		return runes{single('\n').negated()}, nil
	case p.has("^"):
		return anchor{'^'}, nil
	case p.has("$"):
		return anchor{'$'}, nil
	case p.has(`\`):
		if strings.IndexByte("AzZbBG", p.peek()) >= 0 && p.more() {
			p.at++
			return anchor{p.src[p.at-1]}, nil
		}
		s, err := p.escape()
		if err != nil {
			return nil, err
		}
		return p.literal(outsideClass(s)), nil
	case p.peek() == '*' || p.peek() == '+' || p.peek() == '?':
		return nil, p.fail("nothing before %q to repeat", p.peek())
	}
	return p.literal(single(p.next())), nil
}

// group parses the part following an opening parenthesis.
func (p *parser) group() (node, error) {
	wrap := func(n node) node { return n }
	fold, dot := p.fold, p.dot
	switch {
	case p.has("?:"):
	case p.has("?>"):
		wrap = func(n node) node { return atomic{n} }
	case p.has("?="):
		wrap = func(n node) node { return look{of: n} }
	case p.has("?!"):
		wrap = func(n node) node { return look{of: n, negated: true} }
	case p.has("?<="):
		wrap = func(n node) node { return look{of: n, behind: true} }
	case p.has("?<!"):
		wrap = func(n node) node { return look{of: n, behind: true, negated: true} }
	case p.has("?<"), p.has("?P<"):
		for p.more() && p.next() != '>' {
		}
	case p.has("?"):
		on := true
	flags:
		for {
			switch p.next() {
			case 'i':
				p.fold = on
			case 'm', 's':
				p.dot = on
			case '-':
				on = false
			case ':':
				break flags
			case ')': // up to the end of the enclosing group
				n, err := p.alternatives()
				p.fold, p.dot = fold, dot
				return n, err
			default:
				return nil, p.fail("an unknown kind of group")
			}
		}
	}
	n, err := p.alternatives()
	p.fold, p.dot = fold, dot
	if err != nil {
		return nil, err
	}
	if !p.has(")") {
		return nil, p.fail("a group is not closed")
	}
	return wrap(n), nil
}

// escape parses the part following a backslash, inside and outside of classes.
func (p *parser) escape() (spans, error) {
	if !p.more() {
		return nil, p.fail("a backslash at the end")
	}
	r := p.next()
	property := map[rune]string{'s': "space", 'd': "digit", 'w': "word", 'h': "xdigit"}
	if name, ok := property[unicode.ToLower(r)]; ok {
		s, _ := named(name)
		if unicode.IsUpper(r) {
			s = s.negated()
		}
		return s, nil
	}
	switch r {
	case 'n':
		return single('\n'), nil
	case 'r':
		return single('\r'), nil
	case 't':
		return single('\t'), nil
	case 'f':
		return single('\f'), nil
	case 'v':
		return single('\v'), nil
	case 'a':
		return single('\a'), nil
	case 'e':
		return single(0x1b), nil
	case '0':
		return single(0), nil
	case 'x', 'u':
		return p.hex(r)
	case 'p', 'P':
		return p.property(r == 'P')
	}
	if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
		return nil, p.fail("an unknown escape \\%c", r)
	}
	return single(r), nil
}

// hex parses the digits of \xHH, \x{H…} and \uHHHH.
func (p *parser) hex(r rune) (spans, error) {
	n := 2
	if r == 'u' {
		n = 4
	}
	var digits string
	if r == 'x' && p.has("{") {
		end := strings.IndexByte(p.src[p.at:], '}')
		if end < 0 {
			return nil, p.fail("\\x{ is not closed")
		}
		digits = p.src[p.at : p.at+end]
		p.at += end + 1
	} else {
		n = min(n, len(p.src)-p.at)
		digits = p.src[p.at : p.at+n]
		p.at += n
	}
	v, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || v > unicode.MaxRune {
		return nil, p.fail("%s are no hexadecimal digits of a character", quoted.Text(digits))
	}
	return single(rune(v)), nil
}

// property parses the part following \p: {Name}, {^Name} or one letter.
func (p *parser) property(negated bool) (spans, error) {
	var name string
	if p.has("{") {
		end := strings.IndexByte(p.src[p.at:], '}')
		if end < 0 {
			return nil, p.fail("\\p{ is not closed")
		}
		name = p.src[p.at : p.at+end]
		p.at += end + 1
	} else if p.more() {
		name = string(p.next())
	}
	if rest, ok := strings.CutPrefix(name, "^"); ok {
		name, negated = rest, !negated
	}
	s, ok := named(name)
	if !ok {
		return nil, p.fail("an unknown property %s of characters", quoted.Text(name))
	}
	if negated {
		s = s.negated()
	}
	return s, nil
}

// class parses the part following an opening bracket: members, ranges, nested classes and intersections (&&).
func (p *parser) class(depth int) (spans, error) {
	if depth > maxDepth {
		return nil, p.fail("classes nest deeper than %d", maxDepth)
	}
	negated := p.has("^")
	var all, s spans // all: operands preceding an &&
	both := false
	for first := true; ; first = false {
		if !p.more() {
			return nil, p.fail("a class is not closed")
		}
		if !first && p.has("]") {
			break
		}
		switch {
		case p.has("&&"):
			s = s.normal()
			if both {
				s = all.intersection(s)
			}
			all, s, both = s, nil, true
			continue
		case p.has("[:"):
			end := strings.Index(p.src[p.at:], ":]")
			if end < 0 {
				return nil, p.fail("[: is not closed")
			}
			name := p.src[p.at : p.at+end]
			name, not := strings.CutPrefix(name, "^")
			n, ok := posix(name)
			if !ok {
				return nil, p.fail("an unknown property %s of characters", quoted.Text(name))
			}
			if not {
				n = n.negated()
			}
			p.at += end + 2
			s = append(s, n...)
			continue
		case p.has("["):
			inner, err := p.class(depth + 1)
			if err != nil {
				return nil, err
			}
			s = append(s, inner...)
			continue
		}
		lo, err := p.member()
		if err != nil {
			return nil, err
		}
		if p.peek() == '-' && p.at+1 < len(p.src) && p.src[p.at+1] != ']' && len(lo) == 1 && lo[0].lo == lo[0].hi {
			p.at++
			hi, err := p.member()
			if err != nil {
				return nil, err
			}
			if len(hi) != 1 || hi[0].lo != hi[0].hi || hi[0].lo < lo[0].lo {
				return nil, p.fail("a range of characters whose end is before its start, or no character")
			}
			lo = spans{{lo[0].lo, hi[0].lo}}
		}
		s = append(s, lo...)
	}
	s = s.normal()
	if both {
		s = all.intersection(s)
	}
	if negated {
		if p.fold {
			s = s.folded()
		}
		s = s.negated()
	}
	return s, nil
}

// member parses one member of a class.
func (p *parser) member() (spans, error) {
	if p.has(`\`) {
		if p.has("b") {
			return single('\b'), nil
		}
		return p.escape()
	}
	return single(p.next()), nil
}
