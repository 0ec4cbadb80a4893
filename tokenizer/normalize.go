package tokenizer

import (
	"strings"
	"unicode"

	"github.com/gomoe/gomoe/tokenizer/internal/pattern"
	"golang.org/x/text/unicode/norm"
)

// normalizer changes a text before it is cut into words.
type normalizer interface {
	normalize(text string) (string, error)
}

type (
	normalizers  []normalizer
	unicodeForm  norm.Form
	lowercase    struct{}
	stripSpace   struct{ left, right bool }
	stripAccents struct{}
	prepend      string // not before an empty text
	toAlphabet   struct{ *alphabet }
	// bertNormalizer cleans text as BERT does.
	bertNormalizer struct{ clean, chinese, accents, lower bool }
	// replace replaces the matches of a pattern, in a text or a token.
	replace struct {
		find finder
		with string
	}
)

func (ns normalizers) normalize(text string) (string, error) {
	for _, n := range ns {
		var err error
		if text, err = n.normalize(text); err != nil {
			return "", err
		}
	}
	return text, nil
}

func (f unicodeForm) normalize(text string) (string, error) { return norm.Form(f).String(text), nil }

func (lowercase) normalize(text string) (string, error) { return lower(text), nil }

// lower returns text with each character in lower case by itself, without the
// rule for a sigma at the end of a word.
func lower(text string) string {
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		if r == 'İ' {
			return r // becomes two characters
		}
		return unicode.ToLower(r)
	}, text), "İ", "i̇")
}

func (s stripSpace) normalize(text string) (string, error) {
	if s.left {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if s.right {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	}
	return text, nil
}

func (stripAccents) normalize(text string) (string, error) {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.M, r) {
			return -1
		}
		return r
	}, text), nil
}

func (p prepend) normalize(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	return string(p) + text, nil
}

func (a toAlphabet) normalize(text string) (string, error) {
	return string(a.encode(nil, text)), nil
}

func (b bertNormalizer) normalize(text string) (string, error) {
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
		}, norm.NFD.String(text))
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

func (s replace) normalize(text string) (string, error) {
	if l, ok := s.find.(literal); ok {
		return strings.ReplaceAll(text, string(l), s.with), nil
	}
	var out strings.Builder
	last := 0
	err := s.find.each(text, func(start, end int) error {
		out.WriteString(text[last:start])
		out.WriteString(s.with)
		last = end
		return nil
	})
	if last == 0 && out.Len() == 0 {
		return text, err
	}
	out.WriteString(text[last:])
	return out.String(), err
}

// finder finds what separates words.
type finder interface {
	// each calls f with the matches in text, from left to right.
	each(text string, f func(start, end int) error) error
}

type (
	expression struct{ *pattern.Pattern }
	literal    string // not empty
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
