package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/tokenizer/internal/pattern"
	"golang.org/x/text/unicode/norm"
)

// maxNesting is the maximum nesting depth of components.
const maxNesting = 20

// usable checks for errors possible in any component.
func (c *component) usable(depth int) error {
	if c == nil {
		return errors.New("null, want a component with a type")
	}
	if depth > maxNesting {
		return fmt.Errorf("components contain each other more than %d deep", maxNesting)
	}
	return nil
}

// is returns the value of a switch, or usual if it is not set.
func is(b *bool, usual bool) bool {
	if b == nil {
		return usual
	}
	return *b
}

func (c *component) normalizer(depth int) (normalizer, error) {
	if err := c.usable(depth); err != nil {
		return nil, err
	}
	switch c.Type {
	case "Sequence":
		var all normalizers
		for _, n := range c.Normalizers {
			one, err := n.normalizer(depth + 1)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return all, nil
	case "NFC":
		return unicodeForm(norm.NFC), nil
	case "NFD":
		return unicodeForm(norm.NFD), nil
	case "NFKC":
		return unicodeForm(norm.NFKC), nil
	case "NFKD":
		return unicodeForm(norm.NFKD), nil
	case "Lowercase":
		return lowercase{}, nil
	case "Strip":
		return stripSpace{is(c.Left, true), is(c.Rght, true)}, nil
	case "StripAccents":
		return stripAccents{}, nil
	case "Nmt":
		return nmt{}, nil
	case "Prepend":
		return prepend(c.Prepend), nil
	case "Replace":
		f, err := c.Pattern.finder()
		if err != nil {
			return nil, fmt.Errorf("Replace: %w", err)
		}
		return replace{f, c.Content}, nil
	case "ByteLevel":
		return toAlphabet{newAlphabet()}, nil
	case "Precompiled":
		c, err := newCharsmap(c.Charsmap)
		if err != nil {
			return nil, err
		}
		return graphemes{c}, nil
	case "BertNormalizer":
		lower := is(c.LowerAll, true)
		return bertNormalizer{is(c.Clean, true), is(c.Chinese, true), is(c.Accents, lower), lower}, nil
	}
	return nil, fmt.Errorf("type %s, want Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Nmt, Prepend, Replace, ByteLevel, Precompiled or BertNormalizer", quoted.Text(c.Type))
}

// finder returns the finder of a pattern.
func (p *patternJSON) finder() (finder, error) {
	switch {
	case p != nil && p.Regex != nil:
		e, err := pattern.Compile(*p.Regex)
		if err != nil {
			return nil, err
		}
		return expression{e}, nil
	case p != nil && p.String != nil && *p.String != "":
		return literal(*p.String), nil
	}
	return nil, errors.New("no pattern, want a Regex or a String of at least one character")
}

// wordsOfGPT2 is the pattern used by ByteLevel.
const wordsOfGPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func (c *component) splitters(depth int) ([]splitter, error) {
	if err := c.usable(depth); err != nil {
		return nil, err
	}
	find := func(what behaviour, f func(rune) bool) []splitter {
		return []splitter{cut{find: characters(f), what: what}}
	}
	switch c.Type {
	case "Sequence":
		var all []splitter
		for _, s := range c.Pretokenizers {
			some, err := s.splitters(depth + 1)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	case "ByteLevel":
		var all []splitter
		if is(c.PrefixSpace, true) {
			all = append(all, spaceFirst{})
		}
		if is(c.Regex, true) {
			e, err := pattern.Compile(wordsOfGPT2)
			if err != nil {
				return nil, err
			}
			all = append(all, cut{find: expression{e}, what: isolated})
		}
		return append(all, alphabetised{newAlphabet()}), nil
	case "Split":
		what, err := behaviourNamed(c.Behavior)
		if err != nil {
			return nil, fmt.Errorf("Split: %w", err)
		}
		f, err := c.Pattern.finder()
		if err != nil {
			return nil, fmt.Errorf("Split: %w", err)
		}
		return []splitter{cut{f, what, c.Invert}}, nil
	case "Metaspace":
		if _, err := one("Metaspace: replacement", c.Replacement); err != nil {
			return nil, err
		}
		always, first, err := c.scheme()
		if err != nil {
			return nil, fmt.Errorf("Metaspace: %w", err)
		}
		return []splitter{spaces{c.Replacement, always, first, is(c.Cut, true)}}, nil
	case "Whitespace":
		// \w of Rust's regular expressions, which this type uses.
		const word = `\w\p{Join_Control}`
		e, err := pattern.Compile(`[` + word + `]+|[^` + word + `\s]+`)
		if err != nil {
			return nil, err
		}
		return []splitter{cut{expression{e}, removed, true}}, nil
	case "WhitespaceSplit":
		return find(removed, unicode.IsSpace), nil
	case "CharDelimiterSplit":
		r, err := one("CharDelimiterSplit: delimiter", c.Delimiter)
		return find(removed, func(o rune) bool { return o == r }), err
	case "Digits":
		if c.Digits {
			return find(isolated, unicode.IsNumber), nil
		}
		return find(contiguous, unicode.IsNumber), nil
	case "Punctuation":
		what := isolated
		if c.Behavior != "" {
			var err error
			if what, err = behaviourNamed(c.Behavior); err != nil {
				return nil, fmt.Errorf("Punctuation: %w", err)
			}
		}
		return find(what, punctuation()), nil
	case "BertPreTokenizer":
		return slices.Concat(find(removed, unicode.IsSpace), find(isolated, punctuation())), nil
	}
	return nil, fmt.Errorf("type %s, want Sequence, ByteLevel, Split, Metaspace, Whitespace, WhitespaceSplit, CharDelimiterSplit, Digits, Punctuation or BertPreTokenizer", quoted.Text(c.Type))
}

// scheme reports whether a Metaspace adds its character to every part, or only to the first one.
func (c *component) scheme() (always, first bool, err error) {
	if c.Scheme == nil {
		return is(c.PrefixSpace, true), false, nil
	}
	switch *c.Scheme {
	case "always":
		return true, false, nil
	case "first":
		return false, true, nil
	case "never":
		return false, false, nil
	}
	return false, false, fmt.Errorf("prepend_scheme %s, want always, first or never", quoted.Text(*c.Scheme))
}

// postprocess sets the ids added before and after a text.
func (c *component) postprocess(t *Tokenizer, depth int) error {
	if err := c.usable(depth); err != nil {
		return err
	}
	switch c.Type {
	case "Sequence":
		for _, p := range c.Processors {
			if err := p.postprocess(t, depth+1); err != nil {
				return err
			}
		}
		return nil
	case "ByteLevel": // affects only positions in the text
		return nil
	case "BertProcessing", "RobertaProcessing":
		var ids [2]int32
		for i, raw := range []json.RawMessage{c.CLS, c.SEP} {
			var text string
			if err := strictjson.Unmarshal(raw, &[]any{&text, &ids[i]}); err != nil {
				return fmt.Errorf("%s: cls and sep: want a token and its id: %w", c.Type, err)
			}
		}
		t.before = append(ids[:1:1], t.before...)
		t.after = append(t.after, ids[1])
		return nil
	case "TemplateProcessing":
		return c.template(t)
	}
	return fmt.Errorf("type %s, want Sequence, ByteLevel, TemplateProcessing, BertProcessing or RobertaProcessing", quoted.Text(c.Type))
}

func (c *component) template(t *Tokenizer) error {
	var parts []struct {
		SpecialToken, Sequence *struct {
			ID string `json:"id"`
		}
	}
	if err := strictjson.Unmarshal(c.Single, &parts); err != nil {
		return fmt.Errorf("TemplateProcessing: single: %w", err)
	}
	var before, after []int32
	texts := 0
	for _, p := range parts {
		switch {
		case p.Sequence != nil:
			texts++
		case p.SpecialToken != nil:
			s, ok := c.Specials[p.SpecialToken.ID]
			if !ok {
				return fmt.Errorf("TemplateProcessing: token %s is not among special_tokens", quoted.Text(p.SpecialToken.ID))
			}
			if texts == 0 {
				before = append(before, s.IDs...)
			} else {
				after = append(after, s.IDs...)
			}
		}
	}
	if texts != 1 {
		return fmt.Errorf("TemplateProcessing: single has the text %d times, want once", texts)
	}
	t.before, t.after = append(before, t.before...), append(t.after, after...)
	return nil
}

// decoders returns functions creating the steps of a decoder.
func (c *component) decoders(depth int) ([]func() step, error) {
	if err := c.usable(depth); err != nil {
		return nil, err
	}
	var f func() step
	switch c.Type {
	case "Sequence":
		var all []func() step
		for _, d := range c.Decoders {
			some, err := d.decoders(depth + 1)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	case "ByteLevel":
		a := newAlphabet()
		f = func() step { return &byteLevelStep{alphabet: a} }
	case "Metaspace":
		if _, err := one("Metaspace: replacement", c.Replacement); err != nil {
			return nil, err
		}
		always, first, err := c.scheme()
		if err != nil {
			return nil, fmt.Errorf("Metaspace: %w", err)
		}
		f = func() step { return &metaspaceStep{char: c.Replacement, drop: always || first} }
	case "ByteFallback":
		f = func() step { return &bytesStep{} }
	case "Fuse":
		f = func() step { return fuseStep{} }
	case "Strip":
		if _, err := one("Strip: content", c.Content); err != nil {
			return nil, err
		}
		if c.Start < 0 || c.Stop < 0 {
			return nil, fmt.Errorf("Strip: start %d and stop %d, want no negative numbers", c.Start, c.Stop)
		}
		f = func() step { return &stripStep{char: c.Content, left: c.Start, right: c.Stop} }
	case "Replace":
		if c.Pattern == nil || c.Pattern.String == nil || *c.Pattern.String == "" {
			return nil, errors.New("Replace: want a pattern String of at least one character")
		}
		f = func() step { return &replaceStep{what: *c.Pattern.String, with: c.Content} }
	case "BPEDecoder":
		f = func() step { return &suffixStep{suffix: c.Suffix} }
	default:
		return nil, fmt.Errorf("type %s, want Sequence, ByteLevel, Metaspace, ByteFallback, Fuse, Strip, Replace or BPEDecoder", quoted.Text(c.Type))
	}
	return []func() step{f}, nil
}

// growth returns the maximum number of bytes that the steps of a decoder make of one byte.
func (c *component) growth() float64 {
	g := 1.0
	switch c.Type {
	case "Sequence":
		for _, d := range c.Decoders {
			g *= d.growth()
		}
	case "Replace":
		g = max(1, float64(len(c.Content))/float64(len(*c.Pattern.String)))
	case "BPEDecoder":
		g = max(1, 2-float64(len(c.Suffix))) // without a suffix, a space precedes every character
	}
	return g
}

// maxGrowth bounds the growth of a decoder. Decoding has no errors, and a token may be long.
const maxGrowth = 64
