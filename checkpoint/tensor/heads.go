package tensor

import "github.com/gomoe/gomoe/array"

// ToHalves de-interleaves the rows of every head: even rows first, then odd rows. It converts from the order of
// GGUF files to Hugging Face's for rotary positions. head is the number of rows per head. ToNeighbours is the
// inverse.
func ToHalves(a array.Array, head int) array.Array {
	return reordered(a, head, func(to int) int { return to%(head/2)*2 + to/(head/2) })
}

// ToNeighbours interleaves the rows of every head: row i of the first half is followed by row i of the second half.
// It converts from Hugging Face's order to the order of GGUF files.
func ToNeighbours(a array.Array, head int) array.Array {
	return reordered(a, head, func(to int) int { return to%2*(head/2) + to/2 })
}

func reordered(a array.Array, head int, from func(to int) int) array.Array {
	b := array.New(a.Type)
	for i := range a.Type.Shape[0] {
		row := i - i%head + from(i%head)
		copy(b.Rows(i, i+1).Bytes(), a.Rows(row, row+1).Bytes())
	}
	return b
}
