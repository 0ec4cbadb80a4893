package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gomoe/gomoe/tokenizer/internal/jinja"
)

// Turn is the part of a conversation's text that the model writes for one message of the role assistant, with the
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
// texts of the conversation up to a message, and with texts in which the content of a message is another one. Such a turn
// ends with its special token: white space after it, such as the newline of ChatML, is not of the turn. In both
// cases a turn that no special token ends goes on up to the end of a special token that follows. In GLM-4.5's template,
// this is the one that begins the next message.
func (t *Tokenizer) Turns(c Conversation) (string, []Turn, error) {
	d, err := t.plain(c)
	if err != nil {
		return "", nil, err
	}
	text, marked, err := d.render(d.messages, false)
	if err != nil {
		return "", nil, err
	}
	f := turnFinder{dialogue: d, text: text, stand: stand(text), specials: t.specials()}
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
	endToken string // the EOS token, "" if there is none
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
		start, err := f.start(i)
		if err != nil {
			return nil, &MessageError{i, err}
		}
		end, err := f.end(i)
		if err != nil {
			return nil, &MessageError{i, err}
		}
		if start < 0 || end < 0 {
			continue // the text has nothing of the message
		}
		if start < last || end < start {
			return nil, &MessageError{i, errors.New("the chat template writes messages so that the turn of this one cannot be found; mark what the model writes with {% generation %} in the template, or write the conversation as a prompt with a completion")}
		}
		end = f.eos(i, start, end)
		turns, last = append(turns, Turn{Message: i, Span: Span{start, end}}), end
	}
	return turns, nil
}

// eos returns the end of a turn from which the next header is cut off: the end of the first EOS token after the message's words and calls.
func (f *turnFinder) eos(i, start, end int) int {
	from := max(start, f.ends(f.text, f.messages, i, false))
	from = max(from, f.differs(f.text, f.messages, i, false, func(m *jinja.Dict) *jinja.Dict { return said(m, contentOf(m)+f.stand) }))
	if f.endToken == "" || from > end {
		return end
	}
	if at := strings.Index(f.text[from:end], f.endToken); at >= 0 {
		return from + at + len(f.endToken)
	}
	return end
}

// start returns where the turn of a message begins: where the prompt for it ends, as far as the whole text has this prompt.
// -1 says that the text has nothing of the message.
func (f *turnFinder) start(i int) (int, error) {
	prompt, err := f.prompt(i)
	if err == nil && strings.HasPrefix(f.text, prompt) {
		return len(prompt), nil
	}
	own := f.differs(f.text, f.messages, i, false, func(m *jinja.Dict) *jinja.Dict { return said(m, f.stand) })
	if err != nil || i == 0 { // no prompt can be made
		return own, nil
	}
	// Both have the message before, and the same text after it up to the turn.
	before := f.messages[:i]
	in, inPrompt := f.ends(f.text, f.messages, i-1, false), f.ends(prompt, before, i-1, true)
	if in < 0 || inPrompt < 0 {
		in, inPrompt = 0, 0
	}
	upTo := len(f.text)
	if own >= 0 {
		upTo = max(in, own)
	}
	header, after := f.text[in:upTo], prompt[inPrompt:]
	n := min(f.common(f.text[in:], after), len(header))
	// The prompt may begin in another way, if the template ends the last message so. Then the rest of it is looked for.
	for rest := after; len(rest) > n; {
		if at := strings.Index(header, rest); at >= 0 {
			return in + at + len(rest), nil
		}
		_, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
	}
	return in + n, nil
}

func (f *turnFinder) prompt(i int) (string, error) { return f.dialogue.text(f.messages[:i], true) }

// end returns where the turn of a message ends, -1 if the text has nothing of the message.
func (f *turnFinder) end(i int) (int, error) {
	until := f.messages[:i+1]
	if len(until) == len(f.messages) {
		return len(f.text), nil
	}
	short, err := f.dialogue.text(until, false)
	if err == nil && strings.HasPrefix(f.text, short) {
		return len(short), nil
	}
	in := f.ends(f.text, f.messages, i, false)
	if in < 0 || err != nil {
		return in, nil
	}
	inShort := f.ends(short, until, i, false)
	if inShort < 0 {
		return in, nil
	}
	return in + f.common(f.text[in:], short[inShort:]), nil
}

// ends returns where the content of a message ends in the text of messages, or, if it calls tools, the name of the first one;
// -1 if the text does not depend on either.
func (f *turnFinder) ends(text string, messages []*jinja.Dict, i int, generate bool) int {
	if _, ok := messages[i].Get("tool_calls"); ok {
		if at := f.differs(text, messages, i, generate, f.renamed); at >= 0 {
			return at
		}
	}
	return f.differs(text, messages, i, generate, func(m *jinja.Dict) *jinja.Dict { return said(m, contentOf(m)+f.stand) })
}

// renamed returns a message in which the names of all called tools are longer.
func (f *turnFinder) renamed(m *jinja.Dict) *jinja.Dict {
	v, _ := m.Get("tool_calls")
	calls, _ := jinja.Items(v)
	calls = slices.Clone(calls)
	longer := func(d *jinja.Dict) *jinja.Dict {
		name, _ := d.Get("name")
		s, _ := name.(string)
		return with(d, "name", s+f.stand)
	}
	for i, c := range calls {
		call, _ := c.(*jinja.Dict)
		inner, _ := call.Get("function")
		if function, ok := inner.(*jinja.Dict); ok {
			calls[i] = with(call, "function", longer(function))
		} else {
			calls[i] = longer(call)
		}
	}
	return with(m, "tool_calls", jinja.NewList(calls...))
}

// differs returns the first byte of the text of messages that depends on how one of them is changed, -1 if there is none.
func (f *turnFinder) differs(text string, messages []*jinja.Dict, i int, generate bool, change func(*jinja.Dict) *jinja.Dict) int {
	other, err := f.varied(messages, i, change, generate)
	if err != nil || other == text {
		return -1
	}
	n := alike(text, other)
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
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
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
