package tokenizer

import (
	"fmt"

	"github.com/gomoe/gomoe/internal/quoted"
)

// maxSparse is the maximum number of unused ids, in addition to the size of a vocabulary.
const maxSparse = 1 << 20

// vocabulary maps ids to tokens and tokens to ids.
type vocabulary struct {
	texts []string // "" for unused ids and empty tokens
	known []bool
	ids   map[string]int32 // tokens of the model
	added map[string]int32 // tokens unknown to the model
}

// newVocabulary builds a vocabulary from ids by token.
func newVocabulary(ids map[string]int32) (*vocabulary, error) {
	v := &vocabulary{ids: ids, added: map[string]int32{}}
	for text, id := range ids {
		if err := v.set(text, id, len(ids)); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// set assigns a token to an id, in a vocabulary of about size tokens.
func (v *vocabulary) set(text string, id int32, size int) error {
	if id < 0 || int(id) >= 2*size+maxSparse {
		return fmt.Errorf("token %s: id %d, want 0 to %d for %d tokens", quoted.Text(text), id, 2*size+maxSparse-1, size)
	}
	for int(id) >= len(v.texts) {
		v.texts = append(v.texts, "")
		v.known = append(v.known, false)
	}
	if v.known[id] && v.texts[id] != text {
		a, b := min(text, v.texts[id]), max(text, v.texts[id])
		return fmt.Errorf("tokens %s and %s have one id, %d", quoted.Text(a), quoted.Text(b), id)
	}
	v.texts[id], v.known[id] = text, true
	return nil
}

// id returns the id of a token of the model or an added one.
func (v *vocabulary) id(text string) (int32, bool) {
	id, ok := v.ids[text]
	if !ok {
		id, ok = v.added[text]
	}
	return id, ok
}

// byteTokens returns the ids of the tokens <0x00> to <0xFF>, -1 for missing ones.
func (v *vocabulary) byteTokens() (ids [256]int32) {
	for b := range ids {
		id, ok := v.ids[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			id = -1
		}
		ids[b] = id
	}
	return ids
}

// byteOf returns the byte represented by a token such as <0x0A>.
func byteOf(token string) (byte, bool) {
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	hi, ok1 := nibble(token[3])
	lo, ok2 := nibble(token[4])
	return hi<<4 | lo, ok1 && ok2
}

func nibble(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
