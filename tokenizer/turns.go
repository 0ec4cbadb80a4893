package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gomoe/gomoe/tokenizer/internal/jinja"
)

// Turn is a part of a conversation's text that the model writes for one message of the role assistant, with the
// token that ends the turn.
type Turn struct {
	Message int // index of the message
	Span
	// Open says that the text has no token that ends the turn, which only the last one can lack.
	Open bool
}

// Span is a part of a text in bytes.
type Span struct{ Start, End int }

// Turns returns the text of a conversation as [Tokenizer.Prompt] does, and the parts of it that the model writes, one or
// more for each message of the role assistant, in order. Generate is passed over.
//
// A template may write a message in another way when more messages follow: Qwen3's drops earlier reasoning. A turn is a
// part of the whole text all the same, so what comes before a turn is what the whole has there. If the template marks
// what the model writes with {% generation %}, turns are these parts. Otherwise the text of the whole is compared with
// texts of the conversation up to a message, and with texts in which a message has another content, other reasoning or
// other names of called tools. Such a turn ends with its special token: white space after it, such as the newline of
// ChatML, is not of the turn. In both cases a turn that no special token ends goes on up to the end of a special token
// that follows. In GLM-4.5's template, this is the one that begins the next message.
//
// The header before a turn, such as <|im_start|>assistant, is not of the turn. A message has several turns if the
// template writes a part of it after a later message, as Gemma 4's writes the words of a call after the tool's response,
// or if it writes a header within the message after the EOS token.
func (t *Tokenizer) Turns(c Conversation) (string, []Turn, error) {
	d, err := t.plain(c)
	if err != nil {
		return "", nil, err
	}
	text, marked, err := d.render(d.messages, false)
	if err != nil {
		return "", nil, err
	}
	f := turnFinder{dialogue: d, text: text, stand: stand(text), specials: t.specials(), found: map[int]fieldSpans{}, apart: map[int][]Span{}}
	f.endToken, _ = t.Text(t.named.EOS)
	var turns []Turn
	if len(marked) > 0 {
		turns, err = f.marked(marked)
	} else {
		turns, err = f.all()
	}
	if err != nil {
		return "", nil, err
	}
	for i := range turns {
		f.finish(&turns[i], len(marked) > 0)
		if i > 0 { // turns of messages in a row can touch: the next one begins after the token that ends the one before
			turns[i].Start = max(turns[i].Start, turns[i-1].End)
			turns[i].End = max(turns[i].End, turns[i].Start)
		}
	}
	return text, turns, nil
}

// stand returns a character that the text does not have.
func stand(text string) string {
	r := rune(0xf0000) // a private area
	for strings.ContainsRune(text, r) {
		r++
	}
	return string(r)
}

type turnFinder struct {
	*dialogue
	text     string // of the whole conversation
	stand    string
	specials []string
	endToken string             // the EOS token, "" if there is none
	found    map[int]fieldSpans // the fields of messages
	apart    map[int][]Span     // the fields of messages that follow those of a later message
}

// assistants returns the indices of the messages that the model writes.
func (f *turnFinder) assistants() []int {
	var all []int
	for i, m := range f.messages {
		if role, _ := m.Get("role"); role == "assistant" {
			all = append(all, i)
		}
	}
	return all
}

// marked returns the turns that the template marks itself.
func (f *turnFinder) marked(marked [][2]int) ([]Turn, error) {
	assistants := f.assistants()
	turns := make([]Turn, len(marked))
	for i, m := range marked {
		turns[i].Span = Span{m[0], m[1]}
	}
	if len(turns) == len(assistants) {
		for i := range turns {
			turns[i].Message = assistants[i]
		}
		return turns, nil
	}
	// A message may have no part or several. Each part is of the message with whose turn it overlaps.
	found, err := f.all()
	if err != nil {
		return nil, err
	}
	for i := range turns {
		turns[i].Message = -1
		for _, g := range found {
			if g.Start < turns[i].End && turns[i].Start < g.End {
				turns[i].Message = g.Message
			}
		}
		if turns[i].Message < 0 {
			return nil, errors.New("tokenizer: chat template: a part between generation and endgeneration is of no message of the role assistant")
		}
	}
	return turns, nil
}

// all finds the turns of all messages of the role assistant that the text has.
func (f *turnFinder) all() ([]Turn, error) {
	var turns []Turn
	last := 0
	for _, i := range f.assistants() {
		start := f.start(i, last)
		end := f.end(i, start)
		if start < 0 || end < 0 {
			continue // the text has nothing of the message
		}
		if start < last || end < start {
			return nil, &MessageError{i, errors.New("the chat template writes messages so that the turn of this one cannot be found; mark what the model writes with {% generation %} in the template, or write the conversation as a prompt with a completion")}
		}
		parts := f.parts(i, Span{start, end})
		last = parts[len(parts)-1].End
		for _, s := range append(parts, f.apart[i]...) {
			turns = append(turns, Turn{Message: i, Span: s})
		}
	}
	slices.SortStableFunc(turns, func(a, b Turn) int { return a.Start - b.Start })
	return turns, nil
}

// parts splits a turn at headers that follow an EOS token: the model stops at the token and does not write the header. After the
// message's last field, the turn ends with the first EOS token.
func (f *turnFinder) parts(i int, turn Span) []Span {
	var all []Span
	for at := turn.Start; f.endToken != ""; {
		n := strings.Index(f.text[at:turn.End], f.endToken)
		if n < 0 {
			break
		}
		at += n + len(f.endToken)
		rest := strings.TrimLeftFunc(f.text[at:turn.End], unicode.IsSpace)
		if rest == "" {
			break
		}
		if at >= f.fields(i).last() {
			turn.End = at
			break
		}
		if header := f.template.habits.header; header != "" && strings.HasPrefix(rest, header) {
			all = append(all, Span{turn.Start, at})
			at = turn.End - len(rest) + len(header)
			turn.Start = at
		}
	}
	return append(all, turn)
}

// start returns where the turn of a message begins: after the prompt for it, as far as the text has this prompt. last is where the
// turn before ends. -1 says that the text has nothing of the message.
func (f *turnFinder) start(i, last int) int {
	header := f.template.habits.header
	prompt, err := f.dialogue.text(f.messages[:i], true)
	prefix := err == nil && strings.HasPrefix(f.text, prompt)
	if prefix && (header == "" || len(prompt) >= last && strings.Contains(prompt[last:], header)) {
		return len(prompt)
	}
	in, upTo := last, len(f.text)
	if i > 0 {
		in = max(in, f.fields(i-1).last())
	}
	if first := f.fields(i).first(in); first >= 0 {
		upTo = first
	}
	if at := strings.Index(f.text[in:upTo], header); header != "" && at >= 0 {
		in += at + len(header)
		_, rest, _ := strings.Cut(f.added(f.messages[:i], prompt), header)
		return in + min(f.opening(f.text[in:], rest), upTo-in)
	}
	if err != nil || i == 0 { // no prompt can be made
		return f.fields(i).first(0)
	}
	in, inPrompt := f.fields(i - 1).align(f.find(prompt, f.messages[:i], i-1, true))
	return in + min(f.opening(f.text[in:], prompt[inPrompt:]), upTo-in)
}

// opening returns how far text goes on as the rest of a prompt does. A tag of which only a part is the same, as <t of <think> and
// <tool_call>, does not count.
func (f *turnFinder) opening(text, rest string) int {
	n := f.common(text, rest)
	if tag := strings.LastIndexByte(rest[:n], '<'); n < len(rest) && tag >= 0 && !strings.Contains(rest[tag:n], ">") {
		return tag
	}
	return n
}

// end returns where the turn of a message ends that begins at start, -1 if the text has nothing of the message.
func (f *turnFinder) end(i, start int) int {
	until := f.messages[:i+1]
	if len(until) == len(f.messages) {
		return len(f.text)
	}
	short, err := f.dialogue.text(until, false)
	if err == nil && len(short) >= start && strings.HasPrefix(f.text, short) {
		return len(short)
	}
	own := f.fields(i)
	in, inShort := own.align(f.find(short, until, i, false))
	if in == 0 {
		return own.last()
	}
	end := in + f.common(f.text[in:], short[inShort:])
	written := strings.TrimRightFunc(f.text[in:end], unicode.IsSpace)
	if end-in < len(short)-inShort && !slices.ContainsFunc(f.specials, func(s string) bool { return strings.HasSuffix(written, s) }) {
		end += f.ending(i, f.text[end:]) // the message ends in another way than a last one
	}
	return end
}

// ending returns where the first EOS token of the rest of the text ends, or else the first special token; 0 if there is none
// before the fields of messages after i.
func (f *turnFinder) ending(i int, text string) int {
	from := len(f.text) - len(text)
	for j := i + 1; j < len(f.messages); j++ {
		if first := f.fields(j).first(from); first >= 0 {
			text = text[:min(len(text), first-from)]
		}
	}
	for _, all := range [][]string{{f.endToken}, f.specials} {
		best := 0
		for _, s := range all {
			if at := strings.Index(text, s); s != "" && at >= 0 && (best == 0 || at+len(s) < best) {
				best = at + len(s)
			}
		}
		if best > 0 {
			return best
		}
	}
	return 0
}

// fieldSpans are the spans of a text that one message's content, reasoning and names of called tools take up.
type fieldSpans [3]Span

func absent() Span { return Span{-1, -1} }

// first returns where the first field begins that begins at a byte or after it, -1 if none does.
func (f fieldSpans) first(from int) int {
	first := -1
	for _, s := range f {
		if s.Start >= from && (first < 0 || s.Start < first) {
			first = s.Start
		}
	}
	return first
}

// last returns where the last field ends, -1 if there is none.
func (f fieldSpans) last() int { return max(f[0].End, f[1].End, f[2].End) }

// align returns where a field ends in two texts: of the fields that both have, the last one. It returns 0 if there is none.
func (f fieldSpans) align(other fieldSpans) (in, inOther int) {
	for k := range f {
		if other[k].End >= 0 && f[k].End >= in {
			in, inOther = f[k].End, other[k].End
		}
	}
	return in, inOther
}

// fields returns the fields of a message in the text. Fields that follow those of a later message are not among them: they
// become the message's spans in apart.
func (f *turnFinder) fields(i int) fieldSpans {
	if own, ok := f.found[i]; ok {
		return own
	}
	own := f.find(f.text, f.messages, i, false)
	next, begin := -1, own.first(0)
	for j := i + 1; own.first(begin+1) >= 0 && next < 0 && j < len(f.messages); j++ {
		next = f.fields(j).first(begin)
	}
	for k, s := range own {
		if next >= 0 && s.Start > next {
			own[k] = absent()
			if s.Start < s.End {
				f.apart[i] = append(f.apart[i], s)
			}
		}
	}
	f.found[i] = own
	return own
}

// find finds the fields of a message in the text of messages, by comparing it with texts in which they are changed.
func (f *turnFinder) find(text string, messages []*jinja.Dict, i int, generate bool) fieldSpans {
	var all fieldSpans
	for k, edit := range []func(*jinja.Dict, func(string) string) *jinja.Dict{editContent, editReasoning, editCalls} {
		// differs returns the first byte of the text that depends on the change, -1 if there is none.
		differs := func(change func(string) string) int {
			m := edit(messages[i], change)
			if m == nil {
				return -1
			}
			other, err := f.varied(messages, i, m, generate)
			if err != nil || other == text {
				return -1
			}
			return wholeRunes(text, alike(text, other))
		}
		all[k] = Span{differs(func(string) string { return f.stand }), differs(func(s string) string { return s + f.stand })}
		if all[k].Start < 0 || all[k].End < all[k].Start {
			all[k] = absent()
		}
	}
	return all
}

// editContent returns a message with another content. The edits of fields that a message does not have return nil.
func editContent(m *jinja.Dict, edit func(string) string) *jinja.Dict {
	return said(m, edit(contentOf(m)))
}

func editReasoning(m *jinja.Dict, edit func(string) string) *jinja.Dict {
	var out *jinja.Dict
	for _, name := range reasoningNames() {
		if v, _ := m.Get(name); v != nil {
			s, _ := v.(string)
			out = with(cmp.Or(out, m), name, edit(s))
		}
	}
	return out
}

func editCalls(m *jinja.Dict, edit func(string) string) *jinja.Dict {
	v, ok := m.Get("tool_calls")
	if !ok {
		return nil
	}
	calls, _ := jinja.Items(v)
	calls = slices.Clone(calls)
	renamed := func(d *jinja.Dict) *jinja.Dict {
		name, _ := d.Get("name")
		s, _ := name.(string)
		return with(d, "name", edit(s))
	}
	for i, c := range calls {
		call, _ := c.(*jinja.Dict)
		inner, _ := call.Get("function")
		if function, ok := inner.(*jinja.Dict); ok {
			calls[i] = with(call, "function", renamed(function))
		} else {
			calls[i] = renamed(call)
		}
	}
	return with(m, "tool_calls", jinja.NewList(calls...))
}

// wholeRunes returns how many of the first n bytes of a text are of characters that end among them.
func wholeRunes(text string, n int) int {
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// alike returns how many bytes two texts have in common at their beginnings.
func alike(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// common returns how far text goes on as another one does, in whole characters and special tokens.
func (f *turnFinder) common(text, other string) int {
	n := alike(text, other)
	if n == len(other) {
		return n
	}
	n = wholeRunes(text, n)
	for _, s := range f.specials {
		for k := 1; k < len(s) && k <= n; k++ {
			if strings.HasPrefix(text[n-k:], s) { // n is within the token
				n -= k
				break
			}
		}
	}
	return n
}

// finish lets a turn end with a special token, if the text has one there. White space after it is not of the turn, unless the template
// marks it.
func (f *turnFinder) finish(turn *Turn, marked bool) {
	written := strings.TrimRightFunc(f.text[turn.Start:turn.End], unicode.IsSpace)
	rest := f.text[turn.End:]
	space := len(rest) - len(strings.TrimLeftFunc(rest, unicode.IsSpace))
	next := 0
	for _, s := range f.specials {
		if strings.HasSuffix(written, s) {
			if !marked {
				turn.End = turn.Start + len(written)
			}
			return
		}
		if strings.HasPrefix(rest[space:], s) {
			next = max(next, space+len(s))
		}
	}
	turn.End += next
	turn.Open = turn.End == len(f.text) && next == 0
}

// specials returns the texts of the special tokens, and of the one that ends texts.
func (t *Tokenizer) specials() []string {
	var all []string
	for id, special := range t.special {
		if s, ok := t.Text(id); ok && special && s != "" {
			all = append(all, s)
		}
	}
	if s, ok := t.Text(t.named.EOS); ok && !t.special[t.named.EOS] {
		all = append(all, s)
	}
	return all
}

// EncodeSpans is Encode, and says which ids are of a span of the text: those of which at least a byte is in one. Spans
// are in order and do not overlap. The ids are those of the whole text, in which a token can begin before a span and end
// in it. Tokens that stand before or after every text are of a span that reaches the beginning or the end.
func (t *Tokenizer) EncodeSpans(text string, spans []Span, o Options) (ids []int32, inside []bool, err error) {
	last := 0
	for _, s := range spans {
		if s.Start < last || s.End < s.Start || s.End > len(text) {
			return nil, nil, fmt.Errorf("tokenizer: encode: a span of the bytes %d to %d in a text of %d bytes, of which %d are before it", s.Start, s.End, len(text), last)
		}
		last = s.End
	}
	bare := o
	bare.Bare = true
	if ids, err = t.Encode(text, bare); err != nil {
		return nil, nil, err
	}
	inside = make([]bool, len(ids))
	m := marker{t: t, text: text, ids: ids, o: bare}
	for _, s := range spans {
		if s.Start == s.End {
			continue
		}
		from, _, err := m.place(s.Start)
		if err != nil {
			return nil, nil, err
		}
		to, whole, err := m.place(s.End)
		if err != nil {
			return nil, nil, err
		}
		if !whole {
			to++
		}
		for i := from; i < min(to, len(ids)); i++ {
			inside[i] = true
		}
	}
	if !o.Bare {
		ids = slices.Concat(t.before, ids, t.after)
		first := len(spans) > 0 && spans[0].Start == 0
		end := len(spans) > 0 && last == len(text)
		inside = slices.Concat(slices.Repeat([]bool{first}, len(t.before)), inside, slices.Repeat([]bool{end}, len(t.after)))
	}
	return ids, inside, nil
}

// marker finds places of a text in its tokens.
type marker struct {
	t    *Tokenizer
	text string
	ids  []int32
	o    Options
	// The text is cut at, before an added token, and of the ids n are before it. What follows is encoded as if it began
	// there, because an added token separates the texts around it.
	at, n int
	next  int // where to look for the next added token
}

// far is how many bytes before a place the end of a token is looked for.
const far = 256

// place returns how many tokens end at a byte of the text or before, and whether a token ends there. Places are asked for in order.
// The tokens up to a place are those of the text up to it, if the text's tokens begin with them; if not, a token that begins
// before the place ends after it, and the place before it is tried.
func (m *marker) place(p int) (n int, whole bool, err error) {
	if p == len(m.text) {
		return len(m.ids), true, nil
	}
	if err := m.forward(p); err != nil {
		return 0, false, err
	}
	common := 0
	for q := p; q > m.at; q-- {
		if q < len(m.text) && !utf8.RuneStart(m.text[q]) {
			continue
		}
		ids, err := m.t.Encode(m.text[m.at:q], m.o)
		if err != nil {
			return 0, false, err
		}
		rest := m.ids[m.n:]
		k := 0
		for k < len(ids) && k < len(rest) && ids[k] == rest[k] {
			k++
		}
		if k == len(ids) {
			return m.n + k, q == p, nil
		}
		if q == p {
			common = k
		}
		if p-q > far {
			return m.n + common, false, nil
		}
	}
	n = m.n
	if p > m.at && n == 0 && len(m.ids) > 0 && m.t.DecodeAll(m.ids[:1]) == "" {
		n++ // the space that a tokenizer writes before every text is no part of it
	}
	return n, p == m.at, nil
}

// forward goes to the last added token that begins at a place or before.
func (m *marker) forward(p int) error {
	best := m.at
	for m.next <= p {
		which, start, end := m.t.raw.find(m.text, m.next)
		if which < 0 || start > p {
			break
		}
		m.next = end
		a := &m.t.raw.of[which]
		if m.o.Plain && a.special || a.word || a.left || a.right {
			continue
		}
		best = start
	}
	if best == m.at {
		return nil
	}
	ids, err := m.t.Encode(m.text[m.at:best], m.o)
	if err != nil {
		return err
	}
	m.at, m.n = best, m.n+len(ids)
	return nil
}
