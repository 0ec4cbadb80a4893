package array

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
)

// npyDict is the dictionary of a .npy header.
type npyDict struct {
	descr   string
	fortran bool
	shape   []int
}

// typed returns the type of the array. It is an error if it is no type of an Array.
func (h npyDict) typed() (graph.Type, error) {
	order, code := byte('|'), h.descr
	if code != "" && strings.IndexByte("<>|=", code[0]) >= 0 {
		order, code = code[0], code[1:]
	}
	if len(code) > 0 && code[0] == 'O' {
		return graph.Type{}, fmt.Errorf("element type %s: pickled Python objects are not read, want numbers", quoted.Text(h.descr))
	}
	t := graph.Type{Shape: h.shape}
	for d := graph.Bool; d <= graph.F64; d++ {
		if npyCode(d) == code {
			t.DType = d
		}
	}
	if t.DType == graph.NoDType {
		return graph.Type{}, fmt.Errorf("element type %s, want one of b1 u1 u4 i4 i8 f2 f4 f8, V2 for bf16, V1 for f8_e4m3 or f1 for f8_e5m2; convert with x.astype", quoted.Text(h.descr))
	}
	if order == '>' && t.DType.Size() > 1 {
		return graph.Type{}, fmt.Errorf("element type %s is big-endian, want little-endian; convert with x.astype('<%s')", quoted.Text(h.descr), code)
	}
	if len(h.shape) > npyRank {
		return graph.Type{}, fmt.Errorf("%d dimensions, want at most %d", len(h.shape), npyRank)
	}
	if !t.Fits() {
		return graph.Type{}, fmt.Errorf("%s: more bytes than an int64 counts", t)
	}
	return t, nil
}

// parseNPYHeader reads the Python literal
//
//	{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//
// with its keys in any order, each once, followed only by blanks.
func parseNPYHeader(s string) (npyDict, error) {
	p := npyParser{rest: s}
	var h npyDict
	seen := map[string]bool{}
	if err := p.want("{"); err != nil {
		return h, err
	}
	for !p.skip("}") {
		key, err := p.quoted()
		if err == nil {
			err = p.want(":")
		}
		if err != nil {
			return h, err
		}
		if seen[key] {
			return h, fmt.Errorf("key %s twice", quoted.Text(key))
		}
		seen[key] = true
		switch key {
		case "descr":
			if p.skip("[") {
				return h, fmt.Errorf("records with named fields are not read, want plain numbers; save each field")
			}
			h.descr, err = p.quoted()
		case "fortran_order":
			if h.fortran = p.skip("True"); !h.fortran {
				err = p.want("False")
			}
		case "shape":
			h.shape, err = p.tuple()
		default:
			err = fmt.Errorf("key %s, want descr, fortran_order and shape", quoted.Text(key))
		}
		if err != nil {
			return h, err
		}
		if !p.skip(",") {
			if err := p.want("}"); err != nil {
				return h, err
			}
			break
		}
	}
	for _, key := range [...]string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return h, fmt.Errorf("no key %s", quoted.Text(key))
		}
	}
	if p.blanks(); p.rest != "" {
		return h, fmt.Errorf("%s behind the dictionary, want blanks", p.here())
	}
	return h, nil
}

type npyParser struct{ rest string }

func (p *npyParser) blanks() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// here quotes the beginning of the remaining text, for errors.
func (p *npyParser) here() string {
	if len(p.rest) > 20 {
		return strconv.Quote(p.rest[:20]) + "…"
	}
	return strconv.Quote(p.rest)
}

func (p *npyParser) skip(token string) bool {
	p.blanks()
	rest, ok := strings.CutPrefix(p.rest, token)
	p.rest = rest
	return ok
}

func (p *npyParser) want(token string) error {
	if !p.skip(token) {
		return fmt.Errorf("%s, want %s", p.here(), quoted.Text(token))
	}
	return nil
}

func (p *npyParser) quoted() (string, error) {
	p.blanks()
	if p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		return "", fmt.Errorf("%s, want a quoted string", p.here())
	}
	s, rest, ok := strings.Cut(p.rest[1:], p.rest[:1])
	if !ok {
		return "", fmt.Errorf("%s, want a closing quote", p.here())
	}
	p.rest = rest
	return s, nil
}

func (p *npyParser) tuple() ([]int, error) {
	if err := p.want("("); err != nil {
		return nil, err
	}
	var dims []int
	for !p.skip(")") {
		p.blanks()
		end := strings.IndexFunc(p.rest, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(p.rest)
		}
		n, err := strconv.Atoi(p.rest[:end])
		if err != nil {
			return nil, fmt.Errorf("shape: %s, want a dimension from 0 to 2^63-1", p.here())
		}
		p.rest = strings.TrimPrefix(p.rest[end:], "L") // Python 2 wrote long integers with a suffix L
		dims = append(dims, n)
		if !p.skip(",") {
			if err := p.want(")"); err != nil {
				return nil, err
			}
			break
		}
	}
	return dims, nil
}
