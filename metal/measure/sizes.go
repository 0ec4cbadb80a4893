package measure

import (
	"fmt"
	"strings"
)

// Sizes are the sizes of the measured model.
type Sizes struct {
	Tokens, Hidden, Experts, FFN int // of an MoE layer sending each token to 2 experts
	Vocabulary                   int
	Sequence, Heads, HeadDim     int // of attention
	Parameters                   int // number of parameters updated by an optimizer's step
}

// topK is the number of experts of a token.
const topK = 2

// Model returns the sizes of a small language model in training.
func Model() Sizes {
	return Sizes{Tokens: 1024, Hidden: 512, Experts: 8, FFN: 1024, Vocabulary: 32000, Sequence: 1024, Heads: 8, HeadDim: 64, Parameters: 1 << 22}
}

// Small returns sizes that an emulated GPU handles in seconds.
func Small() Sizes {
	return Sizes{Tokens: 8, Hidden: 256, Experts: 4, FFN: 32, Vocabulary: 40, Sequence: 10, Heads: 2, HeadDim: 8, Parameters: 96}
}

// Counted returns sizes at which an emulated GPU counts in minutes, and which are whole tiles of the
// kernels, so that counts scale to a large model like the sizes.
func Counted() Sizes {
	return Sizes{Tokens: 128, Hidden: 512, Experts: 4, FFN: 256, Vocabulary: 1024, Sequence: 128, Heads: 2, HeadDim: 128, Parameters: 1 << 14}
}

// fill replaces the letters in braces in text by sizes.
func (z Sizes) fill(text string, tokens int) string {
	var pairs []string
	for name, n := range map[string]int{
		"T": tokens, "K": topK, "TK": tokens * topK, "D": z.Hidden, "E": z.Experts, "F": z.FFN, "V": z.Vocabulary,
		"FB": (z.FFN + 127) / 128, "DB": (z.Hidden + 127) / 128, "DW": z.Hidden / 8, "DG": z.Hidden / 32, // of scaled weights, and of 4 bits
		"S": z.Sequence, "N": z.Heads, "H": z.HeadDim, "P": z.Parameters,
	} {
		pairs = append(pairs, "{"+name+"}", fmt.Sprint(n))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
