package tokenizer

import (
	"errors"
	"math"
	"slices"
	"unicode/utf8"
)

// unigram splits a word into the pieces with the largest sum of scores.
type unigram struct {
	trie    *trie
	scores  []float64 // by id
	vocab   *vocabulary
	unk     int32
	unknown float64    // score of a character without a piece
	bytes   [256]int32 // ids of <0x00> to <0xFF>; -1 for none
	byBytes bool       // encode a character without a piece as bytes
	// rounded is set if the model is SentencePiece's, which adds scores in single precision, whereas tokenizers uses
	// double precision, so they break ties differently.
	rounded bool
}

// penalty is the difference between the scores of the worst piece and an unknown character.
const penalty = 10

// node is the best path to a position in a word.
type node struct {
	score float64
	from  int32 // start of its last piece; -1 if there is no path
	id    int32
}

func (m *unigram) encode(w *word, text string, out []int32) ([]int32, error) {
	if len(text) > maxWord {
		return nil, errors.New("a text of more than a gigabyte between two spaces, want less")
	}
	best := w.nodes[:0]
	for range len(text) + 1 {
		best = append(best, node{from: -1})
	}
	w.nodes = best
	consider := func(from, to int, id int32, score float64) {
		score += best[from].score
		if m.rounded {
			score = float64(float32(score))
		}
		if n := &best[to]; n.from < 0 || score > n.score {
			*n = node{score, int32(from), id}
		}
	}
	steps := 0
	for from := 0; from < len(text); {
		if steps > maxAdded*(len(text)+maxAdded) {
			return nil, errors.New("the pieces of the tokenizer are too long: a text that repeats their beginnings takes too many steps")
		}
		_, char := utf8.DecodeRuneInString(text[from:])
		known := false
		at := int32(0)
		for i := from; i < len(text); i++ {
			if at = m.trie.step(at, text[i]); at == 0 {
				break
			}
			steps++
			if id := m.trie.ends[at]; id >= 0 {
				consider(from, i+1, id, m.scores[id])
				known = known || i+1 == from+char
			}
		}
		if !known {
			consider(from, from+char, m.unk, m.unknown)
		}
		from += char
	}
	return m.trace(text, best, out)
}

// trace appends the pieces of the best path to the end of text.
func (m *unigram) trace(text string, best []node, out []int32) ([]int32, error) {
	begin := len(out)
	for end := len(text); end > 0; {
		n := best[end]
		start := int(n.from)
		if n.id == m.unk { // along with all preceding unknown characters
			for start > 0 && best[start].id == m.unk {
				start = int(best[start].from)
			}
			id, known := m.vocab.ids[text[start:end]]
			switch {
			case known && !m.rounded: // the name of the unknown token
				out = append(out, id)
				end = start
				continue
			case m.byBytes && m.fallback(text[start:end], &out):
				end = start
				continue
			}
			if m.unk < 0 {
				return nil, errors.New("a character that no piece has, and the tokenizer has no token for unknown ones")
			}
		}
		out = append(out, n.id)
		end = start
	}
	slices.Reverse(out[begin:])
	return out, nil
}

// fallback appends the byte tokens of text, last byte first, if all of them exist.
func (m *unigram) fallback(text string, out *[]int32) bool {
	for i := range len(text) {
		if m.bytes[text[i]] < 0 {
			return false
		}
	}
	for i := len(text) - 1; i >= 0; i-- {
		*out = append(*out, m.bytes[text[i]])
	}
	return true
}

// newUnigram builds a model of the vocabulary's pieces. Every score must be a number.
func newUnigram(vocab *vocabulary, scores []float64, unk int32) *unigram {
	m := &unigram{trie: newTrie(), scores: scores, vocab: vocab, unk: unk, bytes: vocab.byteTokens(), unknown: math.Inf(1)}
	for id, text := range vocab.texts {
		m.unknown = min(m.unknown, scores[id])
		if text != "" {
			m.trie.add(text, int32(id))
		}
	}
	m.unknown -= penalty
	return m
}
