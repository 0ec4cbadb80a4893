package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// number is a numeric type of the format.
type number interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64
}

// maxMeta bounds the memory of keys, values and names in bytes. The largest published vocabularies take 30 MB. The
// file's size is no bound, because a sparse file may have no bytes on disk.
const maxMeta = 256 << 20

// cursor parses the beginning of a file. After an error all further reads return zeros.
type cursor struct {
	mem  []byte
	at   int
	used uint64 // bytes of memory used by parsed data
	err  error
}

// use accounts for the memory of n elements of the given size in bytes.
func (c *cursor) use(n, size uint64) error {
	if n > maxMeta/size || c.used+n*size > maxMeta {
		return fmt.Errorf("keys and names take more than %d MiB with %d elements of %d bytes at byte %d, which no model needs", maxMeta>>20, n, size, c.at)
	}
	c.used += n * size
	return nil
}

// take returns the next n bytes, or nil at the end of the file.
func (c *cursor) take(n uint64) []byte {
	if c.err == nil && n > uint64(len(c.mem)-c.at) {
		c.err = fmt.Errorf("%d bytes at byte %d of %d; the file is cut short", n, c.at, len(c.mem))
	}
	if c.err != nil {
		return nil
	}
	b := c.mem[c.at:][:n:n]
	c.at += int(n)
	return b
}

func scalar[T number](c *cursor) (x T) {
	b := c.take(uint64(binary.Size(x)))
	if b != nil {
		binary.Decode(b, binary.LittleEndian, &x) // b has exactly the bytes of x
	}
	return x
}

// list reads n numbers. It uses no more memory than the file has bytes.
func list[T number](c *cursor, n uint64) ([]T, error) {
	var x T
	size := uint64(binary.Size(x))
	if n > uint64(len(c.mem)-c.at)/size {
		return nil, fmt.Errorf("an array of %d numbers of %d bytes, more than the file's %d further bytes", n, size, len(c.mem)-c.at)
	}
	if err := c.use(n, size); err != nil {
		return nil, err
	}
	out := make([]T, n)
	return out, binary.Read(bytes.NewReader(c.take(n*size)), binary.LittleEndian, out)
}

// text reads a string.
func (c *cursor) text() string {
	n := scalar[uint64](c)
	b := c.take(n)
	if c.err == nil {
		c.err = c.use(n, 1)
	}
	if c.err != nil {
		return ""
	}
	return string(b)
}
