package kernels

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// flatText is a function being written. It loads the arguments, four elements at a time where
// possible, computes every part for each element, and stores the results. Numbers are parameters,
// so that the text depends only on operations and types, and instructions doing the same share a
// function.
type flatText struct {
	lanes   int // elements per thread, 1 or 4
	ragged  bool
	head    []string // the parameters in the head of the function
	early   strings.Builder
	lane    strings.Builder
	late    strings.Builder
	gap     strings.Builder // the statements writing gap rows
	words   []uint32        // the parameters
	names   int
	scalars map[string]bool // variables with the same value for all elements of a thread
	faults  bool
	buffers int
}

// The parameters of every function, in this order.
const (
	flatCount   = iota // elements
	flatWidth          // elements of a row, in ragged functions
	flatExperts        // number of experts whose rows are counted
	flatAlign
	flatWords
)

func newFlatText(lanes int, ragged bool) *flatText {
	return &flatText{lanes: lanes, ragged: ragged, words: make([]uint32, flatWords), scalars: map[string]bool{}}
}

// param adds a parameter and returns its expression.
func (t *flatText) param(word uint32) string {
	t.words = append(t.words, word)
	return fmt.Sprintf("p[%d]", len(t.words)-1)
}

func (t *flatText) name() string {
	t.names++
	return fmt.Sprintf("v%d", t.names)
}

// value assigns an expression to a new variable for one element, and returns the variable.
func (t *flatText) value(kind, e string) string {
	v := t.name()
	fmt.Fprintf(&t.lane, "      %s %s = %s;\n", kind, v, e)
	return v
}

// before is value for an expression with the same value for all elements.
func (t *flatText) before(kind, e string) string {
	v := t.name()
	fmt.Fprintf(&t.early, "    %s %s = %s;\n", kind, v, e)
	t.scalars[v] = true
	return v
}

// once is before if x is the same for all elements, and value otherwise.
func (t *flatText) once(x, kind, e string) string {
	if t.scalars[x] {
		return t.before(kind, e)
	}
	return t.value(kind, e)
}

// fault records a mistake once, for the first part having one. x is an integer.
func (t *flatText) fault(when string, index int, x string) {
	t.faults = true
	to := &t.lane
	if t.scalars[x] {
		to = &t.early
	}
	fmt.Fprintf(to, "    if (gid == 0 && %s && status[0] > %d) {\n      status[0] = %d;\n      status[1] = %s;\n    }\n", when, index, index, x)
}

// argument describes how a part reads an argument of the instruction.
type argument struct {
	dtype  graph.DType
	repeat int // number of consecutive repetitions of each element, 0 for no repetition
	length int // number of repeated elements
	scalar bool
}

// buffer adds a buffer argument to the function.
func (t *flatText) buffer(kind, name string) {
	t.head = append(t.head, fmt.Sprintf("%s %s [[buffer(%d)]]", kind, name, t.buffers))
	t.buffers++
}

func (t *flatText) vector(storage string) string {
	if t.lanes == 1 {
		return storage
	}
	return storage + "4"
}

// load adds code reading argument i, with elements of type d, and returns the variable holding one
// element.
func (t *flatText) load(i int, a argument, n int) (string, error) {
	m, err := metalTypeOf(a.dtype)
	if err != nil {
		return "", err
	}
	value := func(e string) string {
		if a.dtype == graph.Bool {
			return e + " != 0"
		}
		return m.value + "(" + e + ")"
	}
	buffer := fmt.Sprintf("a%d", i)
	switch {
	case a.scalar, a.repeat > 0 && a.length == 1:
		return t.before(m.value, value(buffer+"[0]")), nil
	case a.repeat > 0:
		// Of four elements, equal or adjacent ones are loaded once.
		same := t.lanes > 1 && a.repeat%t.lanes == 0
		beside := t.lanes > 1 && a.repeat == 1 && a.length%t.lanes == 0
		at := "(at + k)"
		if same || beside {
			at = "at"
		}
		if a.repeat > 1 {
			at = fmt.Sprintf("(%s / %s)", at, t.param(uint32(a.repeat)))
		}
		if a.repeat*a.length < n {
			at = fmt.Sprintf("(%s %% %s)", at, t.param(uint32(a.length)))
		}
		switch {
		case same:
			return t.before(m.value, value(buffer+"["+at+"]")), nil
		case beside:
			return t.value(m.value, value(t.vectorOf(buffer, m.storage, at+" / 4u")+"[k]")), nil
		}
		return t.value(m.value, value(buffer+"["+at+"]")), nil
	}
	v := t.vectorOf(buffer, m.storage, "gid")
	if t.lanes == 1 {
		return t.value(m.value, value(v)), nil
	}
	return t.value(m.value, value(v+"[k]")), nil
}

// vectorOf loads the elements of a thread and returns the variable holding them.
func (t *flatText) vectorOf(buffer, storage, at string) string {
	vector, v := t.vector(storage), t.name()
	fmt.Fprintf(&t.early, "    %s %s = ((device const %s*)%s)[%s];\n", vector, v, vector, buffer, at)
	return v
}

// store adds code writing x, a value of type d, to result i.
func (t *flatText) store(i int, d graph.DType, x string) error {
	m, err := metalTypeOf(d)
	if err != nil {
		return err
	}
	vector := t.vector(m.storage)
	v := t.name()
	at := v
	if t.lanes > 1 {
		at += "[k]"
	}
	fmt.Fprintf(&t.early, "    %s %s;\n", vector, v)
	fmt.Fprintf(&t.lane, "      %s = %s(%s);\n", at, m.storage, x)
	fmt.Fprintf(&t.late, "    ((device %s*)o%d)[gid] = %s;\n", vector, i, v)
	fmt.Fprintf(&t.gap, "    ((device %s*)o%d)[gid] = %s(%s(0));\n", vector, i, vector, m.storage)
	return nil
}

// rounded returns a variable with the value of e as it is stored in type d.
func (t *flatText) rounded(d graph.DType, e string) (string, error) {
	m, err := metalTypeOf(d)
	if d == graph.BF16 || d == graph.F16 {
		e = m.value + "(" + m.storage + "(" + e + "))"
	}
	return t.value(m.value, e), err
}

// function returns the text and its name, which is derived from the text.
func (t *flatText) function() (name, text string) {
	if t.ragged {
		t.buffer("device const int*", "counts")
	}
	if t.faults {
		t.buffer("device int*", "status")
	}
	t.buffer("constant uint*", "p")
	var b strings.Builder
	fmt.Fprintf(&b, "(%s,\n    uint gid [[thread_position_in_grid]]) {\n", strings.Join(t.head, ",\n    "))
	fmt.Fprintf(&b, "  uint at = gid * %du;\n", t.lanes)
	work := t.early.String() + fmt.Sprintf("    for (uint k = 0; k < %du; k++) {\n", t.lanes) + t.lane.String() + "    }\n" + t.late.String()
	if t.ragged {
		fmt.Fprintf(&b, "  int kind = at < p[%d] ? row_kind(counts, int(p[%d]), int(p[%d]), int(at / p[%d])) : row_past;\n", flatCount, flatExperts, flatAlign, flatWidth)
		fmt.Fprintf(&b, "  if (kind == row_used) {\n%s  } else if (kind == row_gap) {\n%s  }\n}\n", work, t.gap.String())
	} else {
		fmt.Fprintf(&b, "  if (at < p[%d]) {\n%s  }\n}\n", flatCount, work)
	}
	sum := sha256.Sum256([]byte(b.String()))
	name = "flat_" + hex.EncodeToString(sum[:8])
	return name, "kernel void " + name + b.String()
}
