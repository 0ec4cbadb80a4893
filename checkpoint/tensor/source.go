package tensor

import (
	"fmt"
	"io"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
)

// Source is a tensor to be written to a file.
type Source struct {
	Name string
	Type graph.Type
	// Write writes the Type.Bytes() bytes of the tensor, little-endian and row-major. It is called once, when writing
	// has reached the tensor, so a source may compute its bytes lazily.
	Write func(io.Writer) error
}

// Of returns a source writing an array.
func Of(name string, a array.Array) Source {
	return Source{name, a.Type, func(w io.Writer) error {
		_, err := w.Write(a.Bytes())
		return err
	}}
}

// Copy writes the bytes of the source to w. It is an error if the number of bytes does not match the type.
func (s Source) Copy(w io.Writer) error {
	c := &counter{w: w}
	if err := s.Write(c); err != nil {
		return fmt.Errorf("tensor %s: %w", quoted.Name(s.Name), err)
	}
	if want := s.Type.Bytes(); c.n != want {
		return fmt.Errorf("tensor %s: its source wrote %d bytes for %s, want %d", quoted.Name(s.Name), c.n, s.Type, want)
	}
	return nil
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
