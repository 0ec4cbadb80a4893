// Package jinja renders chat templates as transformers does: Jinja with the options trim_blocks and lstrip_blocks,
// loop controls, the statement generation, and the functions raise_exception and strftime_now. It implements the
// filters, tests, statements and functions of Jinja 3.1 except random, urlize and lipsum, and the non-mutating
// methods of Python's strings, numbers, lists and dictionaries.
//
// Templates come with models and are not trusted. They cannot read files, include or import, and cannot modify
// their inputs. Rendering is metered: time, memory, the depth of calls and the length of the text are bounded, and
// a template exceeding a bound fails with an error. Errors name the line.
package jinja

import (
	"fmt"
	"strings"
	"time"
)

// Limits of templates and of rendering. Published templates have up to 20 kB, and take fewer than 100,000 steps for
// a conversation of 100 messages.
const (
	maxTemplate = 1 << 20
	maxDepth    = 100
	maxOutput   = 8 << 20
	maxBudget   = 4 << 20 // steps, one for each value computed and for each 16 bytes produced
)

// Budget bounds the steps of several renderings.
type Budget struct{ steps int }

// NewBudget returns the budget of n renderings that each take as many steps as one may.
func NewBudget(n int) *Budget { return &Budget{n * maxBudget} }

// Spent reports whether a rendering ended because the budget had too few steps left.
func (b *Budget) Spent() bool { return b.steps < 0 }

// Template is a compiled template. It is safe for concurrent use.
type Template struct {
	body   stmt
	blocks map[string]*block
	names  map[string]bool // variables that expressions read
}

// Reads reports whether an expression of the template reads the variable.
func (t *Template) Reads(name string) bool { return t.names[name] }

// run is one rendering.
type run struct {
	budget int
	shared *Budget // of several renderings; nil for one
	depth  int
	line   int
	now    time.Time
	escape bool             // within {% autoescape true %}
	text   *strings.Builder // text of the whole template
	marked [][2]int         // byte ranges of text written by {% generation %} blocks
}

func (r *run) fail(format string, a ...any) { panic(failure{r.line, fmt.Sprintf(format, a...)}) }

// spend subtracts n steps from the budget.
func (r *run) spend(n int) {
	if r.budget -= n; r.budget < 0 {
		r.fail("the template takes more than %d steps", maxBudget)
	}
	if r.shared == nil {
		return
	}
	if r.shared.steps -= n; r.shared.steps < 0 {
		r.fail("the conversation's renderings take too many steps")
	}
}

// made charges the cost of a new string.
func (r *run) made(s string) string {
	r.spend(len(s) / 16)
	return s
}

// caught converts a failure to an error.
func caught(err *error) {
	switch f := recover().(type) {
	case nil:
	case failure:
		*err = fmt.Errorf("line %d: %s", f.line, f.text)
	default:
		panic(f)
	}
}

// Compile compiles a template.
func Compile(src string) (t *Template, err error) {
	defer caught(&err)
	if len(src) > maxTemplate {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(src), maxTemplate)
	}
	p := &parser{tokens: lex(src), blocks: map[string]*block{}, names: map[string]bool{}}
	body, _ := p.body()
	if len(p.missing) > 0 {
		panic(p.missing[0])
	}
	return &Template{body, p.blocks, p.names}, nil
}

// Render renders a template with the given variables, which must be values in the form returned by [Decode]. now is
// the time for strftime_now. all, if not nil, is a budget that other renderings share. marked holds the byte ranges of
// text written by {% generation %} blocks, in order.
func (t *Template) Render(values *Dict, now time.Time, all *Budget) (text string, marked [][2]int, err error) {
	defer caught(&err)
	var out strings.Builder
	r := &run{budget: maxBudget, shared: all, now: now, text: &out}
	root := &scope{values.clone(), nil}
	root.values["self"] = r.self(t.blocks, root)
	t.body(r, root, &out)
	return out.String(), r.marked, nil
}

func (d *Dict) clone() map[string]any {
	out := make(map[string]any, len(d.values))
	for k, v := range d.values {
		if s, ok := k.(string); ok {
			out[s] = v
		}
	}
	return out
}
