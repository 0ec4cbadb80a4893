package launch

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"
	"sync"
	"time"
)

// output writes to one stream of the launcher. A separate goroutine writes, so that only
// the ranks' own output waits for a reader that does not read. Ranks wait for the reader
// as they would without a launcher. When the job is ending, lines that are not read are
// dropped and counted.
type output struct {
	name string
	w    io.Writer
	done chan struct{} // closed when nothing is left to write

	mu      sync.Mutex
	changed sync.Cond // one of the fields below has changed
	queue   [][]byte
	bytes   int       // bytes in the queue
	began   time.Time // start of the Write in progress; zero if there is none
	closed  bool      // nothing more will be added
	stuck   bool      // the reader has stopped, and everything is dropped
	lost    int       // number of dropped lines
	failed  error     // error of the first Write that failed
	patient *time.Timer
}

// queued is the number of bytes waiting for a reader before ranks have to wait as well.
const queued = 1 << 20

// outputs returns the outputs to two writers. Both are one output if the writers are the
// same, or the same file, such as a terminal, because lines must not be mixed there.
func outputs(stdout, stderr io.Writer) (out, err *output) {
	out = newOutput("standard output", stdout)
	if same(stdout, stderr) {
		return out, out
	}
	return out, newOutput("standard error", stderr)
}

func newOutput(name string, w io.Writer) *output {
	o := &output{name: name, w: w, done: make(chan struct{})}
	o.changed.L = &o.mu
	go o.write()
	return o
}

// same reports whether two writers are equal or write to the same file.
func same(a, b io.Writer) bool {
	f, ok := a.(*os.File)
	g, too := b.(*os.File)
	if ok && too {
		s, err := f.Stat()
		t, terr := g.Stat()
		return err == nil && terr == nil && os.SameFile(s, t)
	}
	return reflect.TypeOf(a).Comparable() && a == b
}

// write writes the queued texts, with one Write for each.
func (o *output) write() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.stuck {
		if len(o.queue) == 0 {
			if o.closed {
				close(o.done)
				return
			}
			o.changed.Wait()
			continue
		}
		text := o.queue[0]
		o.queue, o.bytes, o.began = o.queue[1:], o.bytes-len(text), time.Now()
		o.changed.Broadcast()
		o.mu.Unlock()
		_, err := o.w.Write(text)
		o.mu.Lock()
		o.began = time.Time{}
		if err != nil && !o.stuck {
			o.lost++
			if o.failed == nil {
				o.failed = err
			}
		}
	}
}

// add adds a line, with its end. It waits while the queue is full.
func (o *output) add(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.bytes >= queued && !o.stuck {
		o.changed.Wait()
	}
	o.put(line)
}

// say adds a message of the launcher. It never waits.
func (o *output) say(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(append(fmt.Appendf(nil, format, args...), '\n'))
}

func (o *output) put(line []byte) {
	if o.stuck {
		o.lost++
		return
	}
	o.queue, o.bytes = append(o.queue, line), o.bytes+len(line)
	o.changed.Broadcast()
}

// hurry makes the output give up when one Write takes longer than d.
func (o *output) hurry(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.patient != nil {
		o.patient.Stop()
	}
	o.patient = time.AfterFunc(d, func() { o.check(d) })
}

// check gives up on a reader that has not read for d, or checks again later.
func (o *output) check(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.began.IsZero():
		o.patient.Reset(d)
	case time.Since(o.began) < d:
		o.patient.Reset(d - time.Since(o.began))
	case !o.stuck:
		o.stuck = true
		o.lost += 1 + len(o.queue) // 1 is being written
		o.queue, o.bytes = nil, 0
		close(o.done)
		o.changed.Broadcast()
	}
}

// close declares that nothing more will be added. The output is done when all has been
// written.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.changed.Broadcast()
}

// missing describes the number of lost lines, with the reason; it is empty if all were
// written.
func (o *output) missing() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.patient != nil {
		o.patient.Stop()
	}
	if o.lost == 0 {
		return ""
	}
	lines, why := "1 line of "+o.name+" is lost", "because nobody read it"
	if o.lost > 1 {
		lines, why = fmt.Sprintf("%d lines of %s are lost", o.lost, o.name), "because nobody read them"
	}
	if o.failed != nil {
		return fmt.Sprintf("%s: %v", lines, o.failed)
	}
	return lines + ", " + why
}

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
