package tokenizer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// charsmap is the precompiled table of a SentencePiece normalizer: a trie of texts to replace, stored as a double
// array of the library Darts, and their replacements.
type charsmap struct {
	units []uint32
	texts []byte // each is terminated by a zero byte
}

func newCharsmap(data []byte) (*charsmap, error) {
	if len(data) < 4 {
		return nil, errors.New("precompiled_charsmap: fewer than 4 bytes")
	}
	size := int64(binary.LittleEndian.Uint32(data))
	data = data[4:]
	if size%4 != 0 || size == 0 || size > int64(len(data)) {
		return nil, errors.New("precompiled_charsmap: the size of its table is wrong")
	}
	c := &charsmap{units: make([]uint32, size/4), texts: data[size:]}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	if !utf8.Valid(c.texts) {
		return nil, errors.New("precompiled_charsmap: its texts are no UTF-8")
	}
	return c, nil
}

// find returns the replacement of a prefix of text, and the length of the prefix, choosing the longest or the
// shortest match. The length is 0 if nothing matches.
func (c *charsmap) find(text string, longest bool) (with string, length int) {
	offset := func(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
	node := offset(c.units[0])
	for i := range len(text) {
		node ^= uint32(text[i])
		if int64(node) >= int64(len(c.units)) {
			break
		}
		unit := c.units[node]
		if unit&(1<<31|0xff) != uint32(text[i]) {
			break
		}
		node ^= offset(unit)
		if unit>>8&1 == 0 || int64(node) >= int64(len(c.units)) {
			continue
		}
		at := int(c.units[node] & (1<<31 - 1))
		if at > len(c.texts) {
			continue
		}
		rest := c.texts[at:]
		if end := bytes.IndexByte(rest, 0); end >= 0 {
			rest = rest[:end]
		}
		with, length = lossy(string(rest)), i+1
		if !longest {
			break
		}
	}
	return with, length
}

// graphemes applies the table as the package tokenizers does: to short grapheme clusters as a whole, and otherwise
// to each of their characters.
type graphemes struct{ *charsmap }

func (g graphemes) normalize(text string, limit int) (string, error) {
	var out strings.Builder
	state := -1
	for text != "" {
		if out.Len() > limit {
			return "", errLong
		}
		var cluster string
		cluster, text, _, state = uniseg.FirstGraphemeClusterInString(text, state)
		if len(cluster) < 6 {
			if with, n := g.find(cluster, false); n > 0 {
				out.WriteString(with)
				continue
			}
		}
		for _, r := range cluster {
			if out.Len() > limit {
				return "", errLong
			}
			if with, n := g.find(string(r), false); n > 0 {
				out.WriteString(with)
			} else {
				out.WriteRune(r)
			}
		}
	}
	return out.String(), nil
}
