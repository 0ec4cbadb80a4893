package emu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// countFlags are the compiler's flags for counted text: one instruction for each operation of the
// source remaining after optimization, as on a GPU, and no vectors but the source's.
func countFlags() []string {
	// The number is the version of the calls: changing it gives results new names in the cache.
	return []string{"-DMSL_COUNT=2", "-DMSL_LEADER", "-fno-vectorize", "-fno-slp-vectorize", "-g0"}
}

// compileCounted compiles C++ text, inserting calls that count.
func (c *Compiler) compileCounted(ctx context.Context, dir, text string, flags []string, out, runtime string) error {
	middle := filepath.Join(dir, "counted.ll")
	others := slices.DeleteFunc(linkFlags(), func(f string) bool { return f == "-shared" || f == "-g1" })
	if err := c.compile(ctx, dir, text, slices.Concat(languageFlags(), others, flags, []string{"-S", "-emit-llvm", "-o", middle})); err != nil {
		return err
	}
	program, err := os.ReadFile(middle)
	if err != nil {
		return fmt.Errorf("emu: counting: %w", err)
	}
	with, err := counted(string(program))
	if err != nil {
		return err
	}
	return c.translate(ctx, dir, "ir", with, slices.Concat(others, []string{"-Wno-override-module", "-shared", "-o", out}), runtime, "-lm")
}

// counted returns a program in LLVM's language with counting calls: before each load and store of
// kernels, and at the beginning of each basic block for its arithmetic. Functions of the emulation,
// in the namespaces metal, mpp and msl, are left unchanged.
func counted(text string) (string, error) {
	var out strings.Builder
	out.Grow(2 * len(text))
	c := counter{patterns: newPatterns(), out: &out}
	for line := range strings.Lines(text) {
		if err := c.line(line); err != nil {
			return "", err
		}
	}
	for _, d := range []string{"@msl_count_load(ptr", "@msl_count_store(ptr", "@msl_count_operations("} {
		if !strings.Contains(text, "declare void "+d) {
			rest := map[bool]string{true: ", i64)", false: "i64)"}[strings.HasSuffix(d, "ptr")]
			fmt.Fprintf(&out, "declare void %s%s\n", d, rest)
		}
	}
	return out.String(), nil
}

// counter processes a program line by line.
type counter struct {
	patterns
	out        *strings.Builder
	in         bool     // inside a counted function
	head       []string // the label and the phis of the block
	body       []string // the block's other lines
	operations int      // of the block
}

// patterns match lines of the text.
type patterns struct {
	definition *regexp.Regexp
	label      *regexp.Regexp
	pointer    *regexp.Regexp
	moved      *regexp.Regexp
	arithmetic *regexp.Regexp
	function   *regexp.Regexp
	elements   *regexp.Regexp
	vector     *regexp.Regexp
}

func newPatterns() patterns {
	return patterns{
		definition: regexp.MustCompile(`^define .*@"?([\w.$]+)"?\(`),
		label:      regexp.MustCompile(`^[\w.$"-]+:`),
		pointer:    regexp.MustCompile(`ptr (?:noundef |nonnull |captures\(none\) )*([%@][\w.$"-]+|getelementptr.*\)|inttoptr.*\)|null|undef|poison)(?:, align| syncscope|\s+(?:monotonic|acquire|release|seq_cst)|$)`),
		moved:      regexp.MustCompile(`call void @llvm\.(memcpy|memmove|memset)\.[\w.]+\((.*)\)`),
		arithmetic: regexp.MustCompile(`^\s+%\S+ = (?:tail |fast |nnan |ninf |nsz |arcp |contract |afn |reassoc |nuw |nsw |exact |disjoint |nneg |samesign )*(fadd|fsub|fmul|fdiv|frem|fneg|add|sub|mul|udiv|sdiv|urem|srem|shl|lshr|ashr|and|or|xor|icmp|fcmp|select|fptoui|fptosi|uitofp|sitofp|fpext|fptrunc)((?: fast| nnan| ninf| nsz| arcp| contract| afn| reassoc| nuw| nsw| exact| disjoint| nneg| samesign)*) (.*)$`),
		function:   regexp.MustCompile(`^\s+%\S+ = (?:tail |musttail |notail )?call (?:[\w()]+ )*?(<\d+ x \w+>|float|half|bfloat|i8|i16|i32|i64|i1) @(?:llvm\.[\w.]+|\w+f)\(`),
		elements:   regexp.MustCompile(`<(\d+) x `),
		vector:     regexp.MustCompile(`^<(\d+) x (\w+)>`),
	}
}

// apart reports whether a function belongs to the emulation.
func apart(name string) bool {
	for _, p := range []string{"_ZN5metal", "_ZNK5metal", "_ZZN5metal", "_ZN3msl", "_ZNK3msl", "_ZZN3msl", "_ZL3msl", "_ZN3mpp", "_ZNK3mpp"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func (c *counter) line(l string) error {
	switch {
	case strings.HasPrefix(l, "define "):
		name := c.definition.FindStringSubmatch(l)
		if name == nil {
			return fmt.Errorf("emu: counting: no name in %q", l)
		}
		c.in = !apart(name[1])
		c.out.WriteString(l)
		return nil
	case !c.in:
		c.out.WriteString(l)
		return nil
	case strings.HasPrefix(l, "}"):
		c.flush()
		c.in = false
		c.out.WriteString(l)
		return nil
	case c.label.MatchString(l):
		c.flush()
		c.head = append(c.head, l)
		return nil
	case len(c.body) == 0 && strings.Contains(l, " = phi "):
		c.head = append(c.head, l)
		return nil
	}
	c.operations += c.operationsOf(strings.TrimRight(l, "\n"))
	calls, err := c.accesses(l)
	if err != nil {
		return err
	}
	c.body = append(append(c.body, calls...), l)
	return nil
}

// flush writes the block.
func (c *counter) flush() {
	for _, l := range c.head {
		c.out.WriteString(l)
	}
	if c.operations > 0 {
		fmt.Fprintf(c.out, "  call void @msl_count_operations(i64 %d)\n", c.operations)
	}
	for _, l := range c.body {
		c.out.WriteString(l)
	}
	c.head, c.body, c.operations = c.head[:0], c.body[:0], 0
}

// operationsOf returns the number of operations of an instruction: one per element of a vector, and
// one for a function of the C library.
func (c *counter) operationsOf(l string) int {
	of := ""
	if m := c.arithmetic.FindStringSubmatch(l); m != nil {
		of = m[3]
		if m[1] == "icmp" || m[1] == "fcmp" || m[1] == "select" {
			of = strings.SplitN(of, "%", 2)[0]
		}
	} else if m := c.function.FindStringSubmatch(l); m != nil {
		if strings.Contains(l, "@llvm.assume") || strings.Contains(l, "@llvm.lifetime") {
			return 0
		}
		of = m[1]
	} else {
		return 0
	}
	if m := c.elements.FindStringSubmatch(of); m != nil && strings.Index(of, "<") < strings.IndexAny(of+"%", "%") {
		n, err := strconv.Atoi(m[1])
		if err == nil {
			return n
		}
	}
	return 1
}

// accesses returns the calls counting an instruction's loads and stores.
func (c *counter) accesses(l string) ([]string, error) {
	t := strings.TrimSpace(l)
	load := strings.HasPrefix(t, "%") && strings.Contains(t, " = load ")
	if load || strings.HasPrefix(t, "store ") {
		p := c.pointer.FindStringSubmatch(strings.SplitN(t, ", !", 2)[0])
		typ := t
		if load {
			_, typ, _ = strings.Cut(t, " = load ")
		} else {
			typ = strings.TrimPrefix(t, "store ")
		}
		typ = strings.TrimPrefix(strings.TrimPrefix(typ, "atomic "), "volatile ")
		n, ok := c.sizeOf(typ)
		if p == nil || !ok {
			return nil, fmt.Errorf("emu: counting: what memory does %q touch?", t)
		}
		name := "load"
		if !load {
			name = "store"
		}
		return []string{fmt.Sprintf("  call void @msl_count_%s(ptr %s, i64 %d)\n", name, p[1], n)}, nil
	}
	m := c.moved.FindStringSubmatch(t)
	if m == nil {
		return nil, nil
	}
	args := splitArguments(m[2])
	if len(args) < 3 {
		return nil, fmt.Errorf("emu: counting: what memory does %q touch?", t)
	}
	last := func(s string) string { f := strings.Fields(s); return f[len(f)-1] }
	calls := []string{fmt.Sprintf("  call void @msl_count_store(ptr %s, i64 %s)\n", last(args[0]), last(args[2]))}
	if m[1] != "memset" {
		calls = append(calls, fmt.Sprintf("  call void @msl_count_load(ptr %s, i64 %s)\n", last(args[1]), last(args[2])))
	}
	return calls, nil
}

// splitArguments splits at the commas outside of parentheses.
func splitArguments(s string) (out []string) {
	depth, from := 0, 0
	for i, r := range s {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				out, from = append(out, s[from:i]), i+1
			}
		}
	}
	return append(out, s[from:])
}

// sizeOf returns the size in bytes of the type at the start of text.
func (c *counter) sizeOf(text string) (int, bool) {
	if m := c.vector.FindStringSubmatch(text); m != nil {
		n, err := strconv.Atoi(m[1])
		each, ok := c.sizeOf(m[2])
		if m[2] == "i1" {
			return (n + 7) / 8, err == nil
		}
		return n * each, ok && err == nil
	}
	word := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
	if len(word) == 0 {
		return 0, false
	}
	switch w := word[0]; w {
	case "half", "bfloat":
		return 2, true
	case "float":
		return 4, true
	case "ptr", "double":
		return 8, true
	default:
		bits, err := strconv.Atoi(strings.TrimPrefix(w, "i"))
		return (bits + 7) / 8, err == nil && strings.HasPrefix(w, "i")
	}
}
