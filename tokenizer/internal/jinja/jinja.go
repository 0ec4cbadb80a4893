// Package jinja renders chat templates as transformers does: Jinja with the
// options trim_blocks and lstrip_blocks, loop controls, the statement generation, and the
// functions raise_exception and strftime_now. It has the filters, tests, statements
// and functions of Jinja 3.1 but random, urlize and lipsum, and the methods of Python's strings, numbers,
// lists and dictionaries that change nothing.
//
// A template comes with a model, from anywhere. It reads no files, cannot include
// or import, and changes nothing that it is given. What it computes is counted:
// time, memory, the depth of calls and the length of the text are bounded, and a
// template that goes beyond ends with an error. Errors name the line.
package jinja

import (
	"fmt"
	"strings"
	"time"
)

// Limits of templates and of what they compute. Published templates have up to
// 20 kB, and take fewer than 100,000 steps for a conversation of 100 messages.
const (
	maxTemplate = 1 << 20
	maxDepth    = 100
	maxOutput   = 8 << 20
	maxBudget   = 4 << 20 // steps, one for each value computed and for each 16 bytes made
)

// Template is a template that was read. Many goroutines may render it at once.
type Template struct {
	body   stmt
	blocks map[string]*block
}

// run is one rendering.
type run struct {
	budget int
	depth  int
	line   int
	now    time.Time
	escape bool             // {% autoescape true %} is around
	text   *strings.Builder // the text of the whole template
	marked [][2]int         // byte ranges of text that {% generation %} blocks wrote
}

func (r *run) fail(format string, a ...any) { panic(failure{r.line, fmt.Sprintf(format, a...)}) }

// spend takes n steps from what a rendering may take.
func (r *run) spend(n int) {
	if r.budget -= n; r.budget < 0 {
		r.fail("the template takes more than %d steps", maxBudget)
	}
}

// made spends what a new string costs.
func (r *run) made(s string) string {
	r.spend(len(s) / 16)
	return s
}

// caught makes an error of a failure.
func caught(err *error) {
	switch f := recover().(type) {
	case nil:
	case failure:
		*err = fmt.Errorf("line %d: %s", f.line, f.text)
	default:
		panic(f)
	}
}

// Compile reads a template.
func Compile(src string) (t *Template, err error) {
	defer caught(&err)
	if len(src) > maxTemplate {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(src), maxTemplate)
	}
	p := &parser{tokens: lex(src), blocks: map[string]*block{}}
	body, _ := p.body()
	if len(p.missing) > 0 {
		panic(p.missing[0])
	}
	return &Template{body, p.blocks}, nil
}

// Render returns the text of a template with the variables of values, which are
// those that [Decode] returns. Now is the time that strftime_now tells. marked
// has the byte ranges of text that {% generation %} blocks wrote, in order.
func (t *Template) Render(values *Dict, now time.Time) (text string, marked [][2]int, err error) {
	defer caught(&err)
	var out strings.Builder
	r := &run{budget: maxBudget, now: now, text: &out}
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
