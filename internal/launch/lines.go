package launch

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"
)

// maxLine is the most bytes forwarded as one line. The rest of a longer line follows as
// further lines, marked as such, so that a rank that never ends a line does not use
// unlimited memory.
const maxLine = 64 << 10

// lines forwards a rank's stream, line by line, with a prefix.
type lines struct {
	pass   func(line []byte) // may wait for a reader
	prefix string            // empty for text not written by a rank
	buf    []byte            // a line without its end
	more   bool              // buf continues a line

	mu   sync.Mutex // guards tail, which is read while pass waits
	tail [][]byte
}

// The number of lines, and of bytes of each, kept for the report of a failure.
const (
	tailLines = 12
	tailBytes = 400
)

// Write forwards the lines in p.
func (l *lines) Write(p []byte) (int, error) {
	l.add(p)
	return len(p), nil
}

// copy forwards everything from r until it ends.
func (l *lines) copy(r io.Reader) {
	chunk := make([]byte, 32<<10)
	for {
		n, err := r.Read(chunk)
		l.add(chunk[:n])
		if err != nil {
			return
		}
	}
}

// copyRest forwards the rest of a pipe after its rank has ended. A process started by the
// rank may hold the pipe for ever, if it has left the rank's process group. So copyRest
// waits for at most drain, reading a limited number of bytes.
func (l *lines) copyRest(r *os.File) {
	const most = 4 << 20 // bytes; a pipe holds 64 KiB, or up to 1 MiB if a process asks for more
	chunk := make([]byte, 32<<10)
	for left, n := drain, 0; left > 0 && n < most; {
		began := time.Now()
		r.SetReadDeadline(began.Add(left))
		k, err := r.Read(chunk)
		left -= time.Since(began)
		n += k
		l.add(chunk[:k])
		if err != nil {
			break
		}
	}
}

// end forwards a last line without a line end.
func (l *lines) end() {
	if len(l.buf) > 0 {
		l.emit(l.buf, false)
		l.buf = nil
	}
}

func (l *lines) add(p []byte) {
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		l.long(p[:i])
		l.emit(l.buf, false)
		l.buf, p = l.buf[:0], p[i+1:]
	}
	l.long(p)
}

// long adds to the line, and emits the excess.
func (l *lines) long(p []byte) {
	for len(l.buf)+len(p) > maxLine {
		n := maxLine - len(l.buf)
		l.emit(append(l.buf, p[:n]...), true)
		l.buf, p = l.buf[:0], p[n:]
	}
	l.buf = append(l.buf, p...)
}

// emit writes one line. cut marks a line that continues.
func (l *lines) emit(line []byte, cut bool) {
	mark := " "
	if l.more {
		mark = "+"
	}
	l.more = cut
	l.mu.Lock()
	l.tail = append(l.tail, bytes.Clone(line[:min(len(line), tailBytes)]))
	if len(l.tail) > tailLines {
		l.tail = l.tail[1:]
	}
	l.mu.Unlock()
	b := make([]byte, 0, len(l.prefix)+len(line)+2)
	if l.prefix != "" {
		b = append(append(b, l.prefix...), mark...)
	}
	b = append(append(b, line...), '\n')
	l.pass(b)
}

// last returns the last lines.
func (l *lines) last() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, t := range l.tail {
		out = append(out, string(t))
	}
	return out
}
