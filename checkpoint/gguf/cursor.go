package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// number is a number as the format has them.
type number interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64
}

// cursor reads the beginning of a file. After an error all further reads return zeros.
type cursor struct {
	mem []byte
	at  int
	err error
}

// take returns the next n bytes, nil at the end of the file.
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
		binary.Decode(b, binary.LittleEndian, &x) // b has the bytes of x
	}
	return x
}

// list reads n numbers. It takes no more memory than the file has bytes.
func list[T number](c *cursor, n uint64) ([]T, error) {
	var x T
	size := uint64(binary.Size(x))
	if n > uint64(len(c.mem)-c.at)/size {
		return nil, fmt.Errorf("an array of %d numbers of %d bytes, more than the file's %d further bytes", n, size, len(c.mem)-c.at)
	}
	out := make([]T, n)
	return out, binary.Read(bytes.NewReader(c.take(n*size)), binary.LittleEndian, out)
}

// text reads a string.
func (c *cursor) text() string { return string(c.take(scalar[uint64](c))) }
