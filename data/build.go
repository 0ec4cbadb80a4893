package data

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/tokenizer"
)

// Options configures the conversion of texts to tokens.
type Options struct {
	Tokenizer *tokenizer.Tokenizer
	// Broken is the number of malformed lines to tolerate. More are an error listing the first ones.
	Broken int
	// Date is the date shown to chat templates that ask for today's; zero means DefaultDate.
	Date time.Time
	// Progress, if not nil, is called with the number of source bytes processed and the total.
	Progress func(done, all int64)
}

// DefaultDate is 2000-01-01, so that the same sources give the same tokens on every day.
func DefaultDate() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

func (o Options) date() time.Time { return cmp.Or(o.Date, DefaultDate()) }

// Report describes the outcome of Build.
type Report struct {
	Reused            bool // the file existed, made from the same sources and tokenizer
	Documents, Tokens int64
	Broken            []BrokenLineError // malformed lines that were skipped
	Idle              int64             // conversations left out because no assistant message is predicted
}

// BrokenLineError reports a line, or a whole file, that is not a valid document.
type BrokenLineError struct {
	Path string
	Line int // 0 means the whole file
	Err  error
}

func (b BrokenLineError) Error() string {
	if b.Line == 0 {
		return fmt.Sprintf("%s: %v", b.Path, b.Err)
	}
	return fmt.Sprintf("%s:%d: %v", b.Path, b.Line, b.Err)
}

// Unwrap returns the reason.
func (b BrokenLineError) Unwrap() error { return b.Err }

// BrokenError reports more malformed lines than Options.Broken.
type BrokenError struct {
	Lines   []BrokenLineError // all of them
	Allowed int
}

func (e *BrokenError) Error() string {
	const shown = 10
	var s strings.Builder
	fmt.Fprintf(&s, "data: %d broken lines, want at most %d", len(e.Lines), e.Allowed)
	for _, b := range e.Lines[:min(len(e.Lines), shown)] {
		fmt.Fprintf(&s, "\n%v", b)
	}
	if n := len(e.Lines) - shown; n > 0 {
		fmt.Fprintf(&s, "\nand %d more", n)
	}
	return s.String()
}

// Build tokenizes sources and writes the tokens to the file at path. A source is a text file, which is one
// document, or a file named .jsonl or .json with one JSON object per line, or a JSON list of objects, each being a
// document:
//
//	{"text": "…"}                                          predicts the whole text
//	{"prompt": "…", "completion": "…"}                     predicts the completion
//	{"messages": [{"role": "user", "content": "…"}, …]}    predicts the assistant's messages
//	{"question": "…", "answer": "…"}                       predicts the answer, as a conversation
//
// A conversation may have tools, and variables for the template in chat_template_kwargs. Messages are read as by
// [tokenizer.Tokenizer.Prompt]. An assistant message with weight 0, or with train, training or loss false, is not
// predicted. Conversations without a predicted message are left out and counted. docs/data.md lists further names of
// these members, and the members that complete a conversation. Members that contradict each other, or that a line's
// form cannot have, are errors.
//
// A document is encoded as a whole; a token is predicted if any byte of it is. Documents other than conversations
// are followed by the tokenizer's end-of-text token, if it has one. Conversations are rendered by the tokenizer's
// chat template, using Options.Date, up to the last assistant message. The predicted part of a message begins after
// the template's generation prompt and includes the token ending the turn ([tokenizer.Tokenizer.Turns]). If no
// token ends the last turn, the end-of-text token does.
//
// If the file exists and was made from the same sources (by name, size and time) with the same tokenizer, Build
// leaves it unchanged. The file is replaced atomically, even if several processes build it at once. Malformed lines
// beyond Options.Broken are an error; Build then reads on to find all of them, and writes nothing. When ctx ends,
// Build returns its cause at once, without writing; texts already being encoded are finished in the background.
func Build(ctx context.Context, path string, sources []string, o Options) (Report, error) {
	b := builder{path: path, o: o}
	err := b.build(ctx, sources)
	return b.report, err
}

type builder struct {
	path   string
	o      Options
	report Report
	broken []BrokenLineError
	ends   []int64 // of the documents, in tokens
	done   int64   // bytes of the sources processed
	all    int64

	tokens, learn *spill
}

// spill is an unnamed temporary file for writing a tensor before its length is known.
type spill struct {
	*os.File
	w *bufio.Writer
}

func newSpill(folder string) (*spill, error) {
	f, err := os.CreateTemp(folder, ".tokens-*")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // if an open file cannot be removed, Close removes it
	return &spill{f, bufio.NewWriterSize(f, 1<<20)}, nil
}

func (s *spill) Close() {
	s.File.Close()
	_ = os.Remove(s.Name())
}

// copyTo copies the contents of the spill to w.
func (s *spill) copyTo(w io.Writer) error {
	if err := s.w.Flush(); err != nil {
		return err
	}
	if _, err := s.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(w, s.File)
	return err
}

func (b *builder) build(ctx context.Context, paths []string) error {
	if b.o.Tokenizer == nil {
		return errors.New("data: build: no tokenizer")
	}
	if len(paths) == 0 {
		return errors.New("data: build: no sources")
	}
	if err := whole.Apart(b.path, paths...); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	var sources []source
	stamp := sha256.New()
	fmt.Fprintln(stamp, format, encoding, fingerprint(b.o.Tokenizer), b.o.date().Format(time.RFC3339Nano))
	for _, p := range paths {
		s, err := newSource(p)
		if err != nil {
			return err
		}
		info, err := os.Stat(p)
		if err != nil {
			return fmt.Errorf("data: %w", err)
		}
		fmt.Fprintln(stamp, len(p), p, info.Size(), info.ModTime().UnixNano())
		b.all += info.Size()
		sources = append(sources, s)
	}
	made := hex.EncodeToString(stamp.Sum(nil))
	if old, err := openShard(b.path); err == nil {
		defer old.Close()
		if old.Metadata["made"] == made {
			b.report = Report{Reused: true, Documents: int64(len(old.ends)), Tokens: int64(len(old.tokens))}
			return nil
		}
	}
	for _, s := range []**spill{&b.tokens, &b.learn} {
		var err error
		if *s, err = newSpill(filepath.Dir(b.path)); err != nil {
			return fmt.Errorf("data: %w", err)
		}
		defer (*s).Close()
	}
	for _, s := range sources {
		if err := b.add(ctx, s); err != nil {
			return fmt.Errorf("data: %w", err)
		}
	}
	if len(b.broken) > b.o.Broken {
		return &BrokenError{b.broken, b.o.Broken}
	}
	if len(b.ends) == 0 {
		err := fmt.Errorf("data: %s: no documents", strings.Join(paths, ", "))
		switch {
		case len(b.broken) > 0:
			err = fmt.Errorf("%w; the first of %d broken lines is %w", err, len(b.broken), b.broken[0])
		case b.report.Idle > 0:
			err = fmt.Errorf("%w; in %d conversations %w", err, b.report.Idle, errIdle)
		}
		return err
	}
	if err := b.write(made, paths); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	b.report = Report{Documents: int64(len(b.ends)), Tokens: b.ends[len(b.ends)-1], Broken: b.broken, Idle: b.report.Idle}
	return nil
}

// encoding is increased whenever the same sources give different tokens, to avoid reusing files made by another
// version.
const encoding = 5

// together is the number of documents encoded per batch, using all processors.
const together = 1024

// encoded is a tokenized document.
type encoded struct {
	ids   []int32
	learn []bool
	err   error
}

// add adds the documents of a source.
func (b *builder) add(ctx context.Context, s source) error {
	var parts []part
	size := 0
	flush := func() error {
		out, err := b.encode(ctx, s, parts)
		if err != nil {
			return err
		}
		for i, e := range out {
			b.done += int64(len(parts[i].text))
			if errors.As(e.err, new(templateError)) {
				return BrokenLineError{s.path, parts[i].line, e.err}
			}
			if errors.Is(e.err, errIdle) {
				b.report.Idle++
				continue
			}
			if e.err != nil {
				b.broken = append(b.broken, BrokenLineError{s.path, parts[i].line, e.err})
				continue
			}
			if err := b.put(e); err != nil {
				return err
			}
		}
		parts, size = nil, 0
		if b.o.Progress != nil {
			b.o.Progress(b.done, b.all)
		}
		return nil
	}
	err := s.read(func(p part) error {
		parts, size = append(parts, p), size+len(p.text)
		if len(parts) < together && size < maxLine {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// encode encodes documents of a source on all processors. When ctx ends, it returns without waiting for the
// encoding of a large file.
func (b *builder) encode(ctx context.Context, s source, parts []part) ([]encoded, error) {
	out, next, done := make([]encoded, len(parts)), make(chan int), make(chan struct{})
	var all sync.WaitGroup
	for range goruntime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := range next {
				d, err := s.document(b.o, parts[i])
				if err == nil {
					out[i].ids, out[i].learn, err = d.encode(b.o.Tokenizer)
				}
				out[i].err = err
			}
		})
	}
	go func() {
		defer close(done)
		defer all.Wait()
		defer close(next)
		for i := range parts {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	return out, context.Cause(ctx)
}

// put writes a document's tokens.
func (b *builder) put(e encoded) error {
	var buf [4]byte
	for i, id := range e.ids {
		binary.LittleEndian.PutUint32(buf[:], uint32(id))
		if _, err := b.tokens.w.Write(buf[:]); err != nil {
			return err
		}
		learn := byte(0)
		if e.learn[i] {
			learn = 1
		}
		if err := b.learn.w.WriteByte(learn); err != nil {
			return err
		}
	}
	n := int64(len(e.ids))
	if len(b.ends) > 0 {
		n += b.ends[len(b.ends)-1]
	}
	b.ends = append(b.ends, n)
	return nil
}

// write writes the file.
func (b *builder) write(made string, paths []string) error {
	n := int(b.ends[len(b.ends)-1])
	vocab := b.o.Tokenizer.Size()
	return safetensors.Write(b.path, map[string]string{"format": format, "made": made, "vocab": fmt.Sprint(vocab), "sources": strings.Join(paths, "\n")}, []tensor.Source{
		// Wide element types come first, so that all elements are aligned.
		{Name: "ends", Type: graph.T(graph.I64, len(b.ends)), Write: func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, b.ends) }},
		{Name: "tokens", Type: graph.T(graph.I32, n), Write: b.tokens.copyTo},
		{Name: "learn", Type: graph.T(graph.U8, n), Write: b.learn.copyTo},
	})
}

// fingerprint identifies a tokenizer's tokens and chat templates.
func fingerprint(t *tokenizer.Tokenizer) string {
	h := sha256.New()
	fmt.Fprintln(h, t.Size(), t.Special())
	for id := range t.Size() {
		s, ok := t.Text(int32(id))
		fmt.Fprintf(h, "%t %q\n", ok, s)
	}
	for _, s := range []string{"Two words, 12 numbers: naïve 文字 🙂\n\n\tend ", "  a  b"} {
		ids, err := t.Encode(s, tokenizer.Options{})
		fmt.Fprintln(h, ids, err)
	}
	sources := t.TemplateSources()
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		fmt.Fprintf(h, "%q %q\n", name, sources[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}
