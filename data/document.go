package data

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/tokenizer"
)

// document is an independent text: a file, or a line of a file. It is encoded as a whole, so that its tokens are
// the same as in generation; only a part of them may be predicted.
type document struct {
	text  string
	learn []tokenizer.Span // parts to predict
	o     tokenizer.Options
	ends  bool // followed by the tokenizer's end-of-text token, which is predicted
}

// encode returns the tokens of a document, and which of them are predicted.
func (d document) encode(t *tokenizer.Tokenizer) (ids []int32, learn []bool, err error) {
	ids, learn, err = t.EncodeSpans(d.text, d.learn, d.o)
	if err != nil {
		return nil, nil, err
	}
	if end := t.Special().EOS; d.ends && end >= 0 && (d.text == "" || len(ids) == 0 || ids[len(ids)-1] != end) {
		ids, learn = append(ids, end), append(learn, true)
	}
	if len(ids) == 0 {
		return nil, nil, errors.New("no tokens")
	}
	return ids, learn, nil
}

// text returns the document of a plain text. Special tokens in it are treated as text.
func text(s string) document { return answer("", s) }

// answer returns the document of a prompt and its completion.
func answer(prompt, completion string) document {
	s := prompt + completion
	return document{s, []tokenizer.Span{{Start: len(prompt), End: len(s)}}, tokenizer.Options{Plain: true}, true}
}

// templateError is the reason why no conversation of a file can be rendered.
type templateError struct{ error }

var errNoTemplate = errors.New("the model has no chat template, which says how conversations become texts: write them as prompts with completions, or as texts")

// errIdle reports a conversation in which no message of the role assistant is to be learned. It is left out and counted.
var errIdle = errors.New("no message of the role assistant is to be learned")

// message is a message of a conversation, as stored in the file.
type message struct {
	role  string
	text  json.RawMessage
	learn bool // predict it if it is the assistant's
}

// conversation returns the document of a conversation up to the last assistant message, rendered by the tokenizer's
// chat template. The assistant's messages are predicted, including the ends of turns.
func conversation(t *tokenizer.Tokenizer, c tokenizer.Conversation, messages []message) (document, error) {
	var d document
	if err := t.TemplateError(); err != nil && c.Tools == nil {
		if errors.Is(err, tokenizer.ErrNoTemplate) {
			err = errNoTemplate
		}
		return d, templateError{err}
	}
	until, learns := 0, false
	for i, m := range messages {
		if m.role == "assistant" {
			until, learns = i+1, learns || m.learn
		}
	}
	switch {
	case until == 0:
		err := errors.New("no message of the role assistant, from which a model could learn")
		if n := len(messages); n > 0 {
			err = fmt.Errorf("%w; the last message is of the role %s", err, quoted.Text(messages[n-1].role))
		}
		return d, err
	case !learns:
		return d, errIdle
	}
	var err error
	texts := make([]json.RawMessage, until)
	for i := range texts {
		texts[i] = messages[i].text
	}
	if c.Messages, err = json.Marshal(texts); err != nil {
		return d, err
	}
	whole, turns, err := t.Turns(c)
	var wrong *tokenizer.MessageError
	if errors.As(err, &wrong) {
		return d, fmt.Errorf("message %d: %w", wrong.Index+1, wrong.Err)
	}
	if err != nil {
		return d, err
	}
	d = document{text: whole, o: tokenizer.Options{Bare: true}}
	for _, turn := range turns {
		if messages[turn.Message].learn {
			d.learn = append(d.learn, turn.Span)
			d.ends = turn.Open
		}
	}
	if len(d.learn) == 0 {
		return d, errors.New("the chat template leaves out all messages of the role assistant, and a model could learn nothing")
	}
	return d, nil
}
