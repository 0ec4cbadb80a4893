package tensor

import "github.com/gomoe/gomoe/array"

// ToHalves returns rows of GGUF files in the order of Hugging Face's, for heads of so many rows each, whose rotary positions
// turn pairs: first the rows of a head with even numbers, then the others. ToNeighbours goes the other way.
func ToHalves(a array.Array, head int) array.Array {
	return reordered(a, head, func(to int) int { return to%(head/2)*2 + to/(head/2) })
}

// ToNeighbours returns rows of Hugging Face's files in the order of GGUF files: of each head, row i of the first half and row i
// of the second one behind the other.
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
