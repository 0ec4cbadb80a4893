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

// Turn is a part of a conversation's text written by the model for one assistant message, including the token
// ending the turn.
type Turn struct {
	Message int // index of the message
	Span
	// Open is set if no token ends the turn, which is possible only for the last one.
	Open bool
}

// Span is a range of bytes in a text.
type Span struct{ Start, End int }

// Turns returns the text of a conversation, as [Tokenizer.Prompt] does, and the parts of it written by the model,
// one or more for each assistant message, in order. It ignores Generate. Further variables that the template does not
// read have no effect.
//
// A template may render a message differently if more messages follow: Qwen3's drops earlier reasoning. Turns are
// nevertheless parts of the whole text, so the text preceding a turn is as in the whole. If the template marks the
// model's text with {% generation %}, turns are the marked parts. Otherwise Turns compares the whole text with
// texts of the conversation up to a message, and with texts in which a message has different content, reasoning or
// names of called tools. Such a turn ends with its special token: white space after it, such as the newline of
// ChatML, is excluded. In both cases, a turn not ended by a special token extends to the end of the next special
// token. In GLM-4.5's template, this is the token beginning the next message.
//
// The header before a turn, such as <|im_start|>assistant, is excluded. A message has several turns if the template
// renders a part of it after a later message, as Gemma 4's renders the words of a call after the tool's response,
// or if it renders a header within the message after the EOS token.
func (t *Tokenizer) Turns(c Conversation) (string, []Turn, error) {
	d, err := t.plain(c, false)
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
		if i > 0 { // turns of consecutive messages can touch: the next one begins after the token ending the previous one
			turns[i].Start = max(turns[i].Start, turns[i-1].End)
			turns[i].End = max(turns[i].End, turns[i].Start)
		}
	}
	return text, turns, nil
}

// stand returns a character that does not occur in the text.
func stand(text string) string {
	r := rune(0xf0000) // a private use area
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
	endToken string             // EOS token, "" if there is none
	found    map[int]fieldSpans // fields of messages
	apart    map[int][]Span     // fields of messages rendered after a later message
}

// assistants returns the indices of the messages written by the model.
func (f *turnFinder) assistants() []int {
	var all []int
	for i, m := range f.messages {
		if role, _ := m.Get("role"); role == "assistant" {
			all = append(all, i)
		}
	}
	return all
}

// marked returns the turns marked by the template.
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
	// A message may have no part or several. Each part belongs to the message with an overlapping turn.
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

// all finds the turns of all assistant messages in the text.
func (f *turnFinder) all() ([]Turn, error) {
	var turns []Turn
	last := 0
	for _, i := range f.assistants() {
		start := f.start(i, last)
		end := f.end(i, start)
		if f.budget.Spent() {
			return nil, fmt.Errorf("tokenizer: chat template: a conversation of %d messages, whose turns take too long to find in its text; divide it into shorter ones, or write it as a prompt with a completion", len(f.messages))
		}
		if start < 0 || end < 0 {
			continue // the text omits the message
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

// parts splits a turn at headers following an EOS token: the model stops at the token and does not write the
// header. After the message's last field, the turn ends with the first EOS token.
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

// start returns the beginning of a message's turn, which follows its generation prompt as far as the text contains
// it. last is the end of the previous turn. The result is -1 if the text omits the message.
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
	if err != nil || i == 0 { // there is no generation prompt
		return f.fields(i).first(0)
	}
	in, inPrompt := f.fields(i - 1).align(f.find(prompt, f.messages[:i], i-1, true))
	return in + min(f.opening(f.text[in:], prompt[inPrompt:]), upTo-in)
}

// opening returns the length of the common prefix of text and the rest of a prompt. A partially matching tag, such
// as the <t of <think> and <tool_call>, is excluded.
func (f *turnFinder) opening(text, rest string) int {
	n := f.common(text, rest)
	if tag := strings.LastIndexByte(rest[:n], '<'); n < len(rest) && tag >= 0 && !strings.Contains(rest[tag:n], ">") {
		return tag
	}
	return n
}

// end returns the end of a message's turn beginning at start, or -1 if the text omits the message.
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
		end += f.ending(i, f.text[end:]) // the message ends differently than a last one
	}
	return end
}

// ending returns the end of the first EOS token in text, the rest of the whole text, or else of the first special
// token; 0 if there is none before the fields of messages after i.
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

// fieldSpans are the spans of a message's content, reasoning and names of called tools in a text.
type fieldSpans [3]Span

func absent() Span { return Span{-1, -1} }

// first returns the start of the first field beginning at or after a byte, -1 if there is none.
func (f fieldSpans) first(from int) int {
	first := -1
	for _, s := range f {
		if s.Start >= from && (first < 0 || s.Start < first) {
			first = s.Start
		}
	}
	return first
}

// last returns the end of the last field, -1 if there is none.
func (f fieldSpans) last() int { return max(f[0].End, f[1].End, f[2].End) }

// align returns the end of a field in two texts, choosing the last field present in both, or 0 if there is none.
func (f fieldSpans) align(other fieldSpans) (in, inOther int) {
	for k := range f {
		if other[k].End >= 0 && f[k].End >= in {
			in, inOther = f[k].End, other[k].End
		}
	}
	return in, inOther
}

// fields returns the fields of a message in the text. Fields rendered after the fields of a later message are excluded,
// and recorded as the message's spans in apart.
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

// editContent returns a message with its content edited. Edits of fields missing from a message return nil.
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

// wholeRunes returns the number of bytes of complete characters among the first n bytes of a text.
func wholeRunes(text string, n int) int {
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// alike returns the length of the common prefix of two texts.
func alike(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// common returns the length of the common prefix of text and other, in whole characters and special tokens.
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

// finish extends a turn to the end of a special token following it, if there is one. White space after the token is
// excluded, unless the template marks it.
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

// specials returns the texts of the special tokens, including the EOS token.
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

// EncodeSpans is Encode, and also reports which ids overlap a span of the text. Spans must be in order and must not
// overlap. The ids are as in the whole text, so a token can begin before a span and end in it. Tokens added
// before or after every text belong to a span reaching the beginning or the end.
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

// marker locates positions of a text in its tokens.
type marker struct {
	t    *Tokenizer
	text string
	ids  []int32
	o    Options
	// The text is split at at, before an added token, and n ids precede it. The rest is encoded as if it began there,
	// because an added token separates the surrounding texts.
	at, n int
	next  int // start of the search for the next added token
}

// far is the maximum distance in bytes for finding the end of a token before a position.
const far = 256

// place returns the number of tokens ending at or before a byte of the text, and whether a token ends there. Calls
// must be in order of position. The tokens up to a position are the tokens of the text up to it, if the whole
// text's tokens begin with them. If not, a token crosses the position, and the previous position is tried.
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
		n++ // the space that a tokenizer adds before every text is not part of it
	}
	return n, p == m.at, nil
}

// forward advances to the last added token beginning at or before a position.
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
