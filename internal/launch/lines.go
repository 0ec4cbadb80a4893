package launch

import (
	"bytes"
	"io"
	"sync"
)

// maxLine is the most bytes that are passed on as one line. The rest of a longer
// line follows as further lines, marked as such, so that a rank that never ends a
// line does not use unlimited memory.
const maxLine = 64 << 10

// locked writes to a stream of the launcher. Both streams may be the same, so they
// share a lock.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// lines passes a rank's stream on, line by line, with a prefix.
type lines struct {
	w      io.Writer
	prefix string

	mu   sync.Mutex
	buf  []byte // a line without its end
	more bool   // buf continues a line
	tail [][]byte
}

// How many lines, and how many bytes of each, are kept for the report of a failure.
const (
	tailLines = 12
	tailBytes = 400
)

// copy passes on everything from r until it ends.
func (l *lines) copy(r io.Reader) {
	chunk := make([]byte, 32<<10)
	for {
		n, err := r.Read(chunk)
		l.mu.Lock()
		l.add(chunk[:n])
		if err != nil {
			if len(l.buf) > 0 {
				l.emit(l.buf, false)
				l.buf = nil
			}
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
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

// long adds to the line, and emits the part that is too long.
func (l *lines) long(p []byte) {
	for len(l.buf)+len(p) > maxLine {
		n := maxLine - len(l.buf)
		l.emit(append(l.buf, p[:n]...), true)
		l.buf, p = l.buf[:0], p[n:]
	}
	l.buf = append(l.buf, p...)
}

// emit writes one line. cut says that the line continues.
func (l *lines) emit(line []byte, cut bool) {
	mark := " "
	if l.more {
		mark = "+"
	}
	l.more = cut
	l.tail = append(l.tail, bytes.Clone(line[:min(len(line), tailBytes)]))
	if len(l.tail) > tailLines {
		l.tail = l.tail[1:]
	}
	b := make([]byte, 0, len(l.prefix)+len(line)+2)
	b = append(append(append(append(b, l.prefix...), mark...), line...), '\n')
	l.w.Write(b) // a failing write to the launcher's output does not concern the rank
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
