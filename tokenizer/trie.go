package tokenizer

// trie is a prefix tree of texts.
type trie struct {
	root [256]int32 // node by first byte; 0 for none
	next map[uint64]int32
	ends []int32 // by node, the text ending there; -1 for none
}

func newTrie() *trie { return &trie{next: map[uint64]int32{}, ends: []int32{-1}} }

// add adds a text, which must not be empty. Of equal texts, the first one is kept.
func (t *trie) add(text string, which int32) {
	node := int32(0)
	for at := range len(text) {
		to := t.step(node, text[at])
		if to == 0 {
			to = int32(len(t.ends))
			t.ends = append(t.ends, -1)
			if node == 0 {
				t.root[text[at]] = to
			} else {
				t.next[uint64(node)<<8|uint64(text[at])] = to
			}
		}
		node = to
	}
	if t.ends[node] < 0 {
		t.ends[node] = which
	}
}

func (t *trie) step(node int32, b byte) int32 {
	if node == 0 {
		return t.root[b]
	}
	return t.next[uint64(node)<<8|uint64(b)]
}

// longest returns the longest text that is a prefix of text, and its length; -1 if there is none.
func (t *trie) longest(text string) (which int32, length int) {
	which = -1
	node := int32(0)
	for at := range len(text) {
		if node = t.step(node, text[at]); node == 0 {
			break
		}
		if t.ends[node] >= 0 {
			which, length = t.ends[node], at+1
		}
	}
	return which, length
}
