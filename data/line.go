package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/gomoe/gomoe/tokenizer"
)

// message is a message of a conversation, as it stands in the file.
type message struct {
	role string
	text json.RawMessage
}

// list returns the JSON list of messages.
func list(all []message) json.RawMessage {
	var parts [][]byte
	for _, m := range all {
		parts = append(parts, m.text)
	}
	return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
}

// line is what a line of JSON may have: a text, a prompt with its completion, or a conversation.
type line struct {
	Text       *string           `json:"text"`
	Prompt     *string           `json:"prompt"`
	Completion *string           `json:"completion"`
	Messages   []json.RawMessage `json:"messages"`
	Tools      json.RawMessage   `json:"tools"`
}

// parse returns the document of a line of JSON. Members that it does not know are passed over.
func parse(t *tokenizer.Tokenizer, s []byte) (document, error) {
	var d document
	if !utf8.Valid(s) {
		return d, errors.New("not UTF-8")
	}
	var l line
	if err := json.Unmarshal(s, &l); err != nil {
		return d, err
	}
	switch kinds := []bool{l.Text != nil, l.Prompt != nil || l.Completion != nil, l.Messages != nil}; {
	case slices.Index(kinds, true) < 0:
		return d, errors.New("none of text, prompt with completion, and messages")
	case slices.Contains(kinds[slices.Index(kinds, true)+1:], true):
		return d, errors.New("more than one of text, prompt with completion, and messages")
	case l.Text != nil:
		return text(*l.Text), nil
	case l.Messages == nil && (l.Prompt == nil || l.Completion == nil):
		return d, errors.New("a prompt and a completion come together")
	case l.Messages == nil:
		return answer(*l.Prompt, *l.Completion), nil
	}
	var all []message
	for i, m := range l.Messages {
		var head struct{ Role string }
		if err := json.Unmarshal(m, &head); err != nil || head.Role == "" {
			return d, fmt.Errorf("message %d is no object with a role", i+1)
		}
		all = append(all, message{head.Role, m})
	}
	// A day that does not change, so that the tokens are the same whenever they are made.
	c := tokenizer.Conversation{Tools: l.Tools, Now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
	return conversation(t, c, all)
}
