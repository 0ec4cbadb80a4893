package data

import (
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/tokenizer"
)

// document is a text that stands for itself: a file, or a line of a file.
type document struct {
	pieces []piece
	ends   bool // the tokenizer's end-of-text token follows
}

// piece is a part of a document that is encoded by itself, so that its tokens are those that a
// model sees or writes when it is asked: a prompt ends where the answer begins.
type piece struct {
	text  string
	learn bool // the tokens are to be predicted
	o     tokenizer.Options
}

// encode returns the tokens of a document, and which of them are to be predicted.
func (d document) encode(t *tokenizer.Tokenizer) (ids []int32, learn []bool, err error) {
	for _, p := range d.pieces {
		x, err := t.Encode(p.text, p.o)
		if err != nil {
			return nil, nil, err
		}
		ids = append(ids, x...)
		for range x {
			learn = append(learn, p.learn)
		}
	}
	if end := t.Special().EOS; d.ends && end >= 0 {
		ids, learn = append(ids, end), append(learn, true)
	}
	if len(ids) == 0 {
		return nil, nil, errors.New("no tokens")
	}
	return ids, learn, nil
}

// text returns the document of a plain text. Special tokens in it are text.
func text(s string) document {
	return document{[]piece{{s, true, tokenizer.Options{Plain: true}}}, true}
}

// answer returns the document of a prompt and of what is to follow it.
func answer(prompt, completion string) document {
	return document{[]piece{{prompt, false, tokenizer.Options{Plain: true}}, {completion, true, tokenizer.Options{Plain: true, Bare: true}}}, true}
}

// errNoTemplate is why no conversation of a file can be a document.
var errNoTemplate = errors.New("the model has no chat template, which says how conversations become texts: write them as prompts with completions, or as texts")

// conversation returns the document of a conversation, as the tokenizer's chat template writes
// it. What the assistant says is to be predicted, with what ends its turn.
func conversation(t *tokenizer.Tokenizer, c tokenizer.Conversation, messages []message) (document, error) {
	var d document
	if !t.HasTemplate() && c.Tools == nil {
		return d, errNoTemplate
	}
	so := ""
	add := func(until string, learn bool) error {
		if len(until) < len(so) || until[:len(so)] != so {
			return errors.New("the chat template changes what it wrote of earlier messages, so that turns cannot be told apart")
		}
		if until != so {
			d.pieces = append(d.pieces, piece{until[len(so):], learn, tokenizer.Options{Bare: true}})
		}
		so = until
		return nil
	}
	write := func(n int, generate bool) (string, error) {
		c.Messages, c.Generate = list(messages[:n]), generate
		return t.Template(c)
	}
	said := false
	for i, m := range messages {
		if m.role != "assistant" {
			continue
		}
		said = true
		before, err := write(i, true)
		if err == nil {
			err = add(before, false)
		}
		var after string
		if err == nil {
			after, err = write(i+1, false)
		}
		if err == nil {
			err = add(after, true)
		}
		if err != nil {
			return d, fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	if !said {
		return d, errors.New("no message of the role assistant, from which a model could learn")
	}
	return d, nil
}
