// Package members finds the members that a JSON object has twice. Readers of JSON take the last one without a word, so that a file
// which was edited by hand would mean something else than a person reads in it.
package members

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/gomoe/gomoe/internal/quoted"
)

// Rules say what is an error. The zero Rules allow no member twice.
type Rules struct {
	// Same allows a member twice if both have the same value, up to white space.
	Same bool
	// Most returns how many members an object may have that stands inside of depth others; nil means any number.
	Most func(depth int) int
}

// TwiceError is the error of a member that its object has twice.
type TwiceError struct {
	Name string
	At   int // the offset of the end of the second name
	Line int // where the second name is, from 1 on; 0 if the text has only one line
}

func (e *TwiceError) Error() string {
	text := quoted.Text(e.Name) + " is there twice in one object; keep the one that is meant"
	if e.Line == 0 {
		return text
	}
	return fmt.Sprintf("line %d: %s", e.Line, text)
}

// ManyError is the error of an object with more members than allowed.
type ManyError struct{ Most int }

func (e *ManyError) Error() string {
	return fmt.Sprintf("an object has more than %d members, want fewer", e.Most)
}

// Unmarshal is json.Unmarshal for a file of settings. A byte order mark at its beginning, which some editors write, is skipped. A member that
// an object has twice with different values is an error of type *TwiceError. Names of fields are those of ExactNames.
func Unmarshal(text []byte, v any) error {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if err := json.Unmarshal(ExactNames(text, v), v); err != nil {
		return quoted.Cause(err)
	}
	return Rules{Same: true}.Check(text)
}

// object is an object or a list that the scan is in.
type object struct {
	few    []member // its first members
	many   map[string]int
	values []span // of members in many
	list   bool
	value  bool // the value of member at follows, or is scanned
	from   int  // where the value begins
	at     int  // the number of the member, or that of the first with its name
	again  bool // the name was there before
	end    int  // the end of its name
}

type member struct {
	name  []byte
	value span
}

type span struct{ from, to int }

// few is how many members an object has before they are found by hash.
const few = 16

// Check returns the first error of a text, which is valid JSON.
func (r Rules) Check(text []byte) error {
	var open []object
	for i := 0; i < len(text); i++ {
		var o *object
		if len(open) > 0 {
			o = &open[len(open)-1]
		}
		switch text[i] {
		case '{', '[':
			if len(open) < cap(open) {
				open = open[:len(open)+1]
				o = &open[len(open)-1]
				*o = object{few: o.few[:0]}
			} else {
				open = append(open, object{})
				o = &open[len(open)-1]
			}
			o.list = text[i] == '['
		case '}', ']', ',':
			if o.value {
				if err := r.valued(o, text, i); err != nil {
					return err
				}
			}
			if text[i] != ',' {
				open = open[:len(open)-1]
			}
		case ':':
			o.value, o.from = true, i+1
		case '"':
			from := i
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if o == nil || o.list || o.value {
				continue
			}
			name := text[from+1 : i]
			if bytes.IndexByte(name, '\\') >= 0 {
				var plain string
				if err := json.Unmarshal(text[from:i+1], &plain); err != nil {
					return err
				}
				name = []byte(plain)
			}
			o.end = i + 1
			o.named(name)
			if o.again && !r.Same {
				return twice(o, text)
			}
			if r.Most != nil && len(o.few)+len(o.many) > r.Most(len(open)-1) {
				return &ManyError{r.Most(len(open) - 1)}
			}
		}
	}
	return nil
}

// named notes the name of the next member.
func (o *object) named(name []byte) {
	o.again = true
	for i := range o.few {
		if bytes.Equal(o.few[i].name, name) {
			o.at = i
			return
		}
	}
	if at, ok := o.many[string(name)]; ok {
		o.at = few + at
		return
	}
	o.again = false
	if o.at = len(o.few) + len(o.many); o.at < few {
		o.few = append(o.few, member{name: name})
		return
	}
	if o.many == nil {
		o.many = map[string]int{}
	}
	o.many[string(name)] = o.at - few
	o.values = append(o.values, span{})
}

// valued notes the value of a member, which ends at to.
func (r Rules) valued(o *object, text []byte, to int) error {
	o.value = false
	if !r.Same {
		return nil
	}
	v := &span{}
	if o.at < few {
		v = &o.few[o.at].value
	} else {
		v = &o.values[o.at-few]
	}
	if !o.again {
		*v = span{o.from, to}
		return nil
	}
	var a, b bytes.Buffer
	if json.Compact(&a, text[v.from:v.to]) != nil || json.Compact(&b, text[o.from:to]) != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
		return twice(o, text)
	}
	return nil
}

func twice(o *object, text []byte) error {
	var name string
	if o.at < few {
		name = string(o.few[o.at].name)
	} else {
		for n, at := range o.many {
			if at == o.at-few {
				name = n
			}
		}
	}
	e := &TwiceError{Name: name, At: o.end}
	if bytes.IndexByte(bytes.TrimSpace(text), '\n') >= 0 {
		e.Line = 1 + bytes.Count(text[:o.end], []byte("\n"))
	}
	return e
}
