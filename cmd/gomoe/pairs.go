package main

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
)

// pairs is a flag that is given any number of times, each time as name=value.
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

// optional is a flag with an unsigned integer that may be missing.
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

// size is a flag with a number of bytes, such as 512MiB.
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

// list splits names at commas. It returns no names for an empty text.
func list(s string) []string {
	var out []string
	for _, name := range strings.Split(s, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}
