package whole

import "io"

// Output passes on what is written to a stream and keeps the first error, so that a
// command whose output is lost does not end as if all was well. It is not safe for
// concurrent use.
type Output struct {
	To  io.Writer
	Err error
}

func (o *Output) Write(p []byte) (int, error) {
	n, err := o.To.Write(p)
	if o.Err == nil {
		o.Err = err
	}
	return n, err
}
