package main

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
)

// pairs is a repeatable flag with values of the form name=value. A name containing = is quoted, as
// in the text form: "a=b"=value.
type pairs struct {
	form  string // such as name=file.npy, for errors
	names []string
	value map[string]string
}

func newPairs(fs *flag.FlagSet, name, form, usage string) *pairs {
	p := &pairs{form: form, value: map[string]string{}}
	fs.Var(p, name, usage)
	return p
}

func (p *pairs) String() string { return "" }

func (p *pairs) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if quoted, rest, is := unquoted(s); is {
		name = quoted
		value, ok = strings.CutPrefix(rest, "=")
	}
	if !ok || name == "" || value == "" {
		return fmt.Errorf("want %s", p.form)
	}
	if _, ok := p.value[name]; ok {
		return fmt.Errorf("%s is given twice", name)
	}
	p.names = append(p.names, name)
	p.value[name] = value
	return nil
}

// optional is a flag holding an unsigned integer or nothing.
type optional struct {
	n   uint64
	set bool
}

func (o *optional) String() string {
	if o.set {
		return strconv.FormatUint(o.n, 10)
	}
	return ""
}

func (o *optional) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return fmt.Errorf("want an integer of at least 0")
	}
	o.n, o.set = n, true
	return nil
}

// size is a flag holding a number of bytes, such as 512MiB.
type size int64

func (s *size) String() string {
	if *s > 0 && *s%(1<<30) == 0 {
		return strconv.Itoa(int(*s>>30)) + "GiB"
	}
	return strconv.FormatInt(int64(*s), 10)
}

func (s *size) Set(text string) error {
	digits := strings.TrimRight(text, "KMGTiB")
	shift, ok := map[string]uint{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[text[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 0 || n > 1<<50>>shift {
		return fmt.Errorf("want bytes such as 512MiB or 16GiB")
	}
	*s = size(n << shift)
	return nil
}

// unquoted returns the quoted name at the start of s, and the text following it. ok is false if s
// starts with no quoted name.
func unquoted(s string) (name, rest string, ok bool) {
	q, err := strconv.QuotedPrefix(s)
	if err != nil || q[0] != '"' {
		return "", s, false
	}
	name, err = strconv.Unquote(q)
	return name, s[len(q):], err == nil
}

// list splits names at commas. A name containing a comma is quoted, as in the text form. It returns
// no names for an empty text.
func list(s string) []string {
	var out []string
	for s != "" {
		s = strings.TrimSpace(s)
		name, rest, ok := unquoted(s)
		if rest = strings.TrimSpace(rest); ok && (rest == "" || rest[0] == ',') {
			s = strings.TrimPrefix(rest, ",")
		} else {
			name, s, _ = strings.Cut(s, ",")
		}
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// fileOf returns the file name for a result: the result's name, escaping characters that some file
// systems reject, such as %2F for a slash.
func fileOf(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c < ' ' || c == 0x7f || strings.IndexByte(`/\:*?"<>|%`, c) >= 0 || i == 0 && c == '.' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
