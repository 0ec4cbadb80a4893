package tokenizer

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gomoe/gomoe/tokenizer/internal/pattern"
	"golang.org/x/text/unicode/norm"
)

// normalizer transforms a text before splitting. A step that can make a text much longer fails with errLong before
// its result exceeds limit bytes.
type normalizer interface {
	normalize(text string, limit int) (string, error)
}

// errLong reports a step that makes a text too long.
var errLong = errors.New("the tokenizer makes a text longer than 1 MiB and 32 times its length, which no model needs; its normalizer or pre_tokenizer is wrong")

// longest returns the maximum number of bytes that a tokenizer may make of a text. Unicode's normalization forms
// extend a character to at most 11 times its length, and representing bytes as characters doubles it.
func longest(text string) int { return 1<<20 + 32*len(text) }

// beheads reports whether a normalizer deletes the first character of a text, so that the normalized text begins
// later in the original. Package tokenizers then adds no space before it, see PrependScheme::First in its
// metaspace.rs.
func beheads(n normalizer, text, normal string) bool {
	first, size := utf8.DecodeRuneInString(text)
	if r, _ := utf8.DecodeRuneInString(normal); r == first {
		return false
	}
	rest, err := n.normalize(text[size:], longest(text))
	return err == nil && rest == normal
}

// normalized applies a normalizer to a part of a text, enforcing the limit.
func normalized(n normalizer, text string, limit int) (string, error) {
	text, err := n.normalize(text, limit)
	if err == nil && len(text) > limit {
		err = errLong
	}
	return text, err
}

type (
	normalizers  []normalizer
	unicodeForm  norm.Form
	lowercase    struct{}
	stripSpace   struct{ left, right bool }
	stripAccents struct{}
	nmt          struct{} // the table of SentencePiece's rule nmt_nfkc, without the normalization form
	prepend      string   // except for an empty text
	toAlphabet   struct{ *alphabet }
	// bertNormalizer cleans text as BERT does.
	bertNormalizer struct{ clean, chinese, accents, lower bool }
	// replace replaces the matches of a pattern, in a text or a token.
	replace struct {
		find finder
		with string
	}
)

func (ns normalizers) normalize(text string, limit int) (string, error) {
	for _, n := range ns {
		var err error
		if text, err = normalized(n, text, limit); err != nil {
			return "", err
		}
	}
	return text, nil
}

func (f unicodeForm) normalize(text string, _ int) (string, error) { return f.of(text), nil }

// joiner is U+034F, which package norm inserts into runs of more than 30 marks. Python does not.
const joiner = "\u034f"

// of returns a text in the normalization form.
func (f unicodeForm) of(text string) string {
	out := norm.Form(f).String(text)
	if strings.Count(out, joiner) <= strings.Count(text, joiner) {
		return out
	}
	compatible, composed := norm.Form(f) == norm.NFKC || norm.Form(f) == norm.NFKD, norm.Form(f) == norm.NFC || norm.Form(f) == norm.NFKC
	// The algorithms of Unicode's annex 15 and of chapter 3.11 of the standard, character by character.
	type char struct {
		r     rune
		class uint8
	}
	var chars []char
	for _, r := range text {
		parts := norm.NFD.String(string(r))
		if compatible {
			parts = norm.NFKD.String(string(r))
		}
		for _, d := range parts {
			chars = append(chars, char{d, norm.NFD.PropertiesString(string(d)).CCC()})
		}
	}
	for i := 0; i < len(chars); i++ {
		from := i
		for i < len(chars) && chars[i].class != 0 {
			i++
		}
		slices.SortStableFunc(chars[from:i], func(a, b char) int { return cmp.Compare(a.class, b.class) })
	}
	if composed {
		starter, last := -1, uint8(0) // last is the class of the preceding character, if it was kept
		kept := chars[:0]
		for _, c := range chars {
			if starter >= 0 && (len(kept) == starter+1 || last != 0 && last < c.class) {
				both := []rune(norm.NFC.String(string([]rune{kept[starter].r, c.r})))
				if len(both) == 1 {
					kept[starter].r = both[0]
					continue
				}
			}
			if last = c.class; last == 0 {
				starter = len(kept)
			}
			kept = append(kept, c)
		}
		chars = kept
	}
	var b strings.Builder
	for _, c := range chars {
		b.WriteRune(c.r)
	}
	return b.String()
}

func (nmt) normalize(text string, _ int) (string, error) {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 1 && r <= 8, r == 0xb, r >= 0xe && r <= 0x1f, r == 0x7f, r == 0x8f, r == 0x9f:
			return -1
		case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200b && r <= 0x200f, r == 0x2028, r == 0x2029, r == metaspace, r == 0xfeff, r == 0xfffd:
			return ' '
		}
		return r
	}, text), nil
}

func (lowercase) normalize(text string, _ int) (string, error) { return lower(text), nil }

// lower converts each character to lower case separately, without the rule for a sigma at the end of a word.
func lower(text string) string {
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		if r == 'İ' {
			return r // becomes two characters, below
		}
		return unicode.ToLower(r)
	}, text), "İ", "i̇")
}

func (s stripSpace) normalize(text string, _ int) (string, error) {
	if s.left {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if s.right {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return text, nil
}

func (stripAccents) normalize(text string, _ int) (string, error) {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.M, r) {
			return -1
		}
		return r
	}, text), nil
}

func (p prepend) normalize(text string, limit int) (string, error) {
	if text == "" {
		return "", nil
	}
	if len(p) > limit {
		return "", errLong
	}
	return string(p) + text, nil
}

func (a toAlphabet) normalize(text string, _ int) (string, error) {
	return string(a.encode(nil, text)), nil
}

func (b bertNormalizer) normalize(text string, _ int) (string, error) {
	if b.clean {
		text = strings.Map(func(r rune) rune {
			switch {
			case r == '\t' || r == '\n' || r == '\r':
				return ' '
			case r == 0 || r == unicode.ReplacementChar || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co):
				return -1
			case unicode.IsSpace(r):
				return ' '
			}
			return r
		}, text)
	}
	if b.chinese {
		var out strings.Builder
		for _, r := range text {
			if ideograph(r) {
				out.WriteString(" " + string(r) + " ")
			} else {
				out.WriteRune(r)
			}
		}
		text = out.String()
	}
	if b.accents {
		text = strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Mn, r) {
				return -1
			}
			return r
		}, unicodeForm(norm.NFD).of(text))
	}
	if b.lower {
		text = lower(text)
	}
	return text, nil
}

func ideograph(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF ||
		r >= 0x2A700 && r <= 0x2B73F || r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF ||
		r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}

func (s replace) normalize(text string, limit int) (string, error) {
	if l, ok := s.find.(literal); ok {
		if more := len(s.with) - len(l); more > 0 && strings.Count(text, string(l)) > (limit-len(text))/more {
			return "", errLong
		}
		return strings.ReplaceAll(text, string(l), s.with), nil
	}
	var out strings.Builder
	last := 0
	err := s.find.each(text, func(start, end int) error {
		out.WriteString(text[last:start])
		if out.WriteString(s.with); out.Len() > limit {
			return errLong
		}
		last = end
		return nil
	})
	if last == 0 && out.Len() == 0 {
		return text, err
	}
	out.WriteString(text[last:])
	return out.String(), err
}

// finder finds separators of words.
type finder interface {
	// each calls f with the matches in text, from left to right.
	each(text string, f func(start, end int) error) error
}

type (
	expression struct{ *pattern.Pattern }
	literal    string // must not be empty
	characters func(r rune) bool
)

func (e expression) each(text string, f func(start, end int) error) error { return e.Each(text, f) }

func (l literal) each(text string, f func(start, end int) error) error {
	for at := 0; ; {
		i := strings.Index(text[at:], string(l))
		if i < 0 {
			return nil
		}
		if err := f(at+i, at+i+len(l)); err != nil {
			return err
		}
		at += i + len(l)
	}
}

func (c characters) each(text string, f func(start, end int) error) error {
	for i, r := range text {
		if c(r) {
			if err := f(i, i+len(string(r))); err != nil {
				return err
			}
		}
	}
	return nil
}
