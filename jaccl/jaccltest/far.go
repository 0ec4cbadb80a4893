package jaccltest

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// Far is a rank in another process, which runs Serve at the other end of a connection.
// With one Far for every rank, Conformance tests ranks that are processes.
type Far struct {
	enc *gob.Encoder

	mu     sync.Mutex
	calls  map[int]chan answer
	next   int
	broken error
}

// NewFar returns the rank at the other end of conn. A goroutine reads conn until conn ends.
func NewFar(conn io.ReadWriter) *Far {
	f := &Far{enc: gob.NewEncoder(conn), calls: map[int]chan answer{}}
	go func() {
		dec := gob.NewDecoder(conn)
		for {
			var a answer
			if err := dec.Decode(&a); err != nil {
				f.end(fmt.Errorf("jaccltest: the rank's process: %w", err))
				return
			}
			f.mu.Lock()
			c := f.calls[a.ID]
			delete(f.calls, a.ID)
			f.mu.Unlock()
			if c != nil {
				c <- a
			}
		}
	}()
	return f
}

// end makes all calls in progress return; they and later ones fail with err.
func (f *Far) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = err
	for _, c := range f.calls {
		close(c)
	}
	clear(f.calls)
}

// Open makes the rank open the communicator of a new job, returning it. It has to be
// called for all ranks of the job.
func (f *Far) Open() (jaccl.Communicator, error) {
	a := f.ask(context.Background(), request{Kind: "open"})
	if err := a.error(nil, nil); err != nil {
		return nil, err
	}
	return &farComm{far: f, rank: a.Group.Rank, size: a.Group.Size}, nil
}

// Clean ends the job. Its communicator must have been closed. It reports whether the
// rank's process can open another communicator: nothing has failed.
func (f *Far) Clean() bool {
	a := f.ask(context.Background(), request{Kind: "end"})
	return a.error(nil, nil) == nil && a.Clean
}

// ask sends a request to the rank and waits for its answer. When ctx ends, the rank's
// call is cancelled, and ask still waits.
func (f *Far) ask(ctx context.Context, r request) answer {
	c := make(chan answer, 1)
	f.mu.Lock()
	if f.broken != nil {
		f.mu.Unlock()
		return answer{Err: &farError{Text: f.broken.Error()}}
	}
	f.next++
	r.ID = f.next
	f.calls[r.ID] = c
	err := f.enc.Encode(r)
	f.mu.Unlock()
	if err != nil {
		f.end(err)
	}
	defer context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.enc.Encode(request{ID: r.ID, Kind: "cancel", Text: context.Cause(ctx).Error()})
	})()
	a, ok := <-c
	if !ok {
		return answer{Err: &farError{Text: f.broken.Error()}}
	}
	return a
}

// request is a request to a rank.
type request struct {
	ID       int
	Kind     string // the method
	Group    int    // the ID of the group, for methods of groups
	Call     collective.Call
	Dst, Src []place
	Blocks   []block
	To, From int
	Ranks    []int
	Text     string
}

// answer is the result of the request with the same ID.
type answer struct {
	ID     int
	Err    *farError
	Blocks []block
	Group  *farGroup
	Clean  bool
}

// farGroup describes a group of the rank.
type farGroup struct {
	ID, Rank, Size int
	Ranks          []int
}

// farError is an error in serialisable form.
type farError struct {
	Text      string
	Kinds     []int        // the indices in kinds of the errors that it wraps
	Own       *jaccl.Error // the *jaccl.Error, without its Err; nil if it is none
	OfContext bool         // it wraps the cause of the operation's context
	OfFail    bool         // it wraps the argument of Fail
}

// kinds returns the errors that a farError can wrap.
func kinds() []error {
	return []error{jaccl.ErrMismatch, jaccl.ErrDeadline, jaccl.ErrClosed, jaccl.ErrLost, jaccl.ErrUnsupported, jaccl.ErrArgument, context.Canceled, context.DeadlineExceeded}
}

// describe returns err for the other end. cause is the cause of the operation's context,
// and given is the argument of Fail, at this end.
func describe(err, cause, given error) *farError {
	if err == nil {
		return nil
	}
	e := &farError{Text: err.Error(), OfContext: cause != nil && errors.Is(err, cause), OfFail: given != nil && errors.Is(err, given)}
	for i, k := range kinds() {
		if errors.Is(err, k) {
			e.Kinds = append(e.Kinds, i)
		}
	}
	if own := (*jaccl.Error)(nil); errors.As(err, &own) {
		e.Text = own.Err.Error()
		e.Own = &jaccl.Error{Rank: own.Rank, Call: own.Call, Blame: own.Blame, Outstanding: own.Outstanding}
	}
	return e
}

// error returns the answer's error as an error of this end. cause and given are as for
// describe, at this end.
func (a *answer) error(cause, given error) error {
	e := a.Err
	if e == nil {
		return nil
	}
	w := &wrapping{text: e.Text}
	for _, k := range e.Kinds {
		w.is = append(w.is, kinds()[k])
	}
	if e.OfContext && cause != nil {
		w.is = append(w.is, cause)
	}
	if e.OfFail && given != nil {
		w.is = append(w.is, given)
	}
	if e.Own == nil {
		return w
	}
	own := *e.Own
	own.Err = w
	return &own
}

// wrapping is an error wrapping others.
type wrapping struct {
	text string
	is   []error
}

func (w *wrapping) Error() string   { return w.text }
func (w *wrapping) Unwrap() []error { return w.is }

// farComm is the communicator of a Far rank.
type farComm struct {
	far        *Far
	rank, size int
	failed     error // the first argument of Fail
}

func (c *farComm) Rank() int { return c.rank }
func (c *farComm) Size() int { return c.size }

func (c *farComm) Group(ranks []int) (collective.Group, error) {
	g, err := c.Among(ranks)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (c *farComm) Among(ranks []int) (jaccl.Group, error) {
	a := c.far.ask(context.Background(), request{Kind: "among", Ranks: ranks})
	if err := a.error(nil, c.failed); err != nil {
		return nil, err
	}
	return &farEnd{c, *a.Group}, nil
}

func (c *farComm) World() jaccl.Group {
	a := c.far.ask(context.Background(), request{Kind: "world"})
	if a.Group == nil {
		return &farEnd{c, farGroup{Rank: c.rank, Size: c.size}} // the process has ended, as every operation will report
	}
	return &farEnd{c, *a.Group}
}

func (c *farComm) Fail(cause error) {
	if c.failed == nil {
		c.failed = cause
	}
	c.far.ask(context.Background(), request{Kind: "fail", Text: cause.Error()})
}

func (c *farComm) Close() error {
	a := c.far.ask(context.Background(), request{Kind: "close"})
	return a.error(nil, c.failed)
}

// farEnd is a group of a Far rank.
type farEnd struct {
	c *farComm
	farGroup
}

func (g *farEnd) Rank() int    { return g.farGroup.Rank }
func (g *farEnd) Size() int    { return g.farGroup.Size }
func (g *farEnd) Ranks() []int { return slices.Clone(g.farGroup.Ranks) }

// do sends r with copies of these buffers to the rank, copying the result into dst.
func (g *farEnd) do(ctx context.Context, r request, dst, src [][]byte) (answer, error) {
	blocks, places := pack(dst, src)
	r.Group, r.Blocks, r.Dst, r.Src = g.ID, blocks, places[0], places[1]
	a := g.c.far.ask(ctx, r)
	if len(a.Blocks) == len(blocks) {
		for i, b := range buffers(r.Dst, a.Blocks) {
			copy(dst[i], b)
		}
	}
	return a, a.error(context.Cause(ctx), g.c.failed)
}

// just is do for an operation returning nothing but an error.
func (g *farEnd) just(ctx context.Context, kind string, c collective.Call, dst, src [][]byte) error {
	_, err := g.do(ctx, request{Kind: kind, Call: c}, dst, src)
	return err
}

func (g *farEnd) AllSum(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.just(ctx, "all_sum", c, [][]byte{dst}, [][]byte{src})
}

func (g *farEnd) AllMax(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.just(ctx, "all_max", c, [][]byte{dst}, [][]byte{src})
}

func (g *farEnd) AllMin(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.just(ctx, "all_min", c, [][]byte{dst}, [][]byte{src})
}

func (g *farEnd) AllGather(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.just(ctx, "all_gather", c, [][]byte{dst}, [][]byte{src})
}

func (g *farEnd) AllGatherV(ctx context.Context, c collective.Call, dst [][]byte, src []byte) error {
	return g.just(ctx, "all_gather_v", c, dst, [][]byte{src})
}

func (g *farEnd) ReduceScatter(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.just(ctx, "reduce_scatter", c, [][]byte{dst}, [][]byte{src})
}

func (g *farEnd) AllToAll(ctx context.Context, c collective.Call, dst, src [][]byte) error {
	return g.just(ctx, "all_to_all", c, dst, src)
}

func (g *farEnd) Barrier(ctx context.Context, c collective.Call) error {
	return g.just(ctx, "barrier", c, nil, nil)
}

func (g *farEnd) Broadcast(ctx context.Context, c collective.Call, root int, buf []byte) error {
	_, err := g.do(ctx, request{Kind: "broadcast", Call: c, From: root}, [][]byte{buf}, nil)
	return err
}

func (g *farEnd) Send(ctx context.Context, c collective.Call, to int, src []byte) error {
	_, err := g.do(ctx, request{Kind: "send", Call: c, To: to}, nil, [][]byte{src})
	return err
}

func (g *farEnd) Recv(ctx context.Context, c collective.Call, from int, dst []byte) error {
	_, err := g.do(ctx, request{Kind: "recv", Call: c, From: from}, [][]byte{dst}, nil)
	return err
}

func (g *farEnd) SendRecv(ctx context.Context, c collective.Call, to int, src []byte, from int, dst []byte) error {
	_, err := g.do(ctx, request{Kind: "send_recv", Call: c, To: to, From: from}, [][]byte{dst}, [][]byte{src})
	return err
}

func (g *farEnd) Split(ctx context.Context, c collective.Call, color, key int) (jaccl.Group, error) {
	a, err := g.do(ctx, request{Kind: "split", Call: c, To: color, From: key}, nil, nil)
	if err != nil || a.Group == nil {
		return nil, err
	}
	return &farEnd{g.c, *a.Group}, nil
}

func (g *farEnd) Close() error {
	_, err := g.do(context.Background(), request{Kind: "close group"}, nil, nil)
	return err
}

// block is a piece of the caller's memory. Buffers that overlap lie in the same block, so
// that the other process reproduces overlaps and alignment.
type block struct {
	At uintptr // the address; only the position within a cache line matters
	B  []byte
}

// place is the location of a buffer in the blocks; the zero place is a nil buffer.
type place struct {
	Block    int // the block's number, from 1; past the last block for an empty buffer
	Off, Len int
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// pack copies buffers into blocks, returning the places of each list of buffers.
func pack(all ...[][]byte) (blocks []block, places [][]place) {
	var bufs [][]byte
	for _, list := range all {
		for _, b := range list {
			if len(b) > 0 {
				bufs = append(bufs, b)
			}
		}
	}
	slices.SortFunc(bufs, func(a, b []byte) int {
		if address(a) < address(b) {
			return -1
		}
		return 1
	})
	for _, b := range bufs {
		at, last := address(b), len(blocks)-1
		if last < 0 || at >= blocks[last].At+uintptr(len(blocks[last].B)) {
			blocks, last = append(blocks, block{At: at}), last+1
		}
		k := &blocks[last]
		off := int(at - k.At)
		k.B = append(k.B, make([]byte, max(0, off+len(b)-len(k.B)))...)
		copy(k.B[off:], b)
	}
	for _, list := range all {
		ps := make([]place, len(list))
		for i, b := range list {
			if b == nil {
				continue
			}
			ps[i] = place{Block: len(blocks) + 1} // empty, and not nil
			for n, k := range blocks {
				if at := address(b); len(b) > 0 && at >= k.At && at < k.At+uintptr(len(k.B)) {
					ps[i] = place{n + 1, int(at - k.At), len(b)}
				}
			}
		}
		places = append(places, ps)
	}
	return blocks, places
}

// laid returns copies of the blocks at addresses with the same position in a cache line.
func laid(blocks []block) []block {
	const line = 64
	out := make([]block, len(blocks))
	for i, k := range blocks {
		room := make([]byte, len(k.B)+line)
		skip := (k.At - address(room)) % line
		out[i] = block{k.At, room[skip:][:len(k.B):len(k.B)]}
		copy(out[i].B, k.B)
	}
	return out
}

// buffers returns the buffers at these places in blocks.
func buffers(ps []place, blocks []block) [][]byte {
	out := make([][]byte, len(ps))
	for i, p := range ps {
		switch {
		case p.Block > len(blocks):
			out[i] = []byte{}
		case p.Block > 0:
			out[i] = blocks[p.Block-1].B[p.Off:][:p.Len:p.Len]
		}
	}
	return out
}

// Serve serves the requests of the Far at the other end of conn, until conn ends. open
// opens the communicator of a new job; Serve calls it for every Far.Open. clean reports
// whether this process can open another communicator.
func Serve(conn io.ReadWriter, open func() (jaccl.Communicator, error), clean func() bool) error {
	s := &server{open: open, clean: clean, enc: gob.NewEncoder(conn), cancels: map[int]context.CancelCauseFunc{}}
	dec := gob.NewDecoder(conn)
	for {
		var r request
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		s.mu.Lock()
		if r.Kind == "cancel" {
			if cancel := s.cancels[r.ID]; cancel != nil {
				cancel(errors.New(r.Text))
			}
			s.mu.Unlock()
			continue
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		s.cancels[r.ID] = cancel
		s.mu.Unlock()
		go func() {
			a := s.do(ctx, &r)
			a.ID = r.ID
			cancel(nil)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.cancels, r.ID)
			s.enc.Encode(a)
		}()
	}
}

// server is the state of Serve.
type server struct {
	open  func() (jaccl.Communicator, error)
	clean func() bool

	mu      sync.Mutex
	enc     *gob.Encoder
	cancels map[int]context.CancelCauseFunc
	comm    jaccl.Communicator
	groups  []jaccl.Group
	failed  error // the first argument of Fail
	bad     bool  // an operation has failed
}

// group keeps g, returning its description for the other end; nil for nil.
func (s *server) group(g jaccl.Group) *farGroup {
	if g == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups = append(s.groups, g)
	return &farGroup{ID: len(s.groups) - 1, Rank: g.Rank(), Size: g.Size(), Ranks: g.Ranks()}
}

// do executes r, returning the answer, without its ID.
func (s *server) do(ctx context.Context, r *request) (a answer) {
	var err error
	s.mu.Lock()
	comm, failed := s.comm, s.failed
	s.mu.Unlock()
	switch r.Kind {
	case "open":
		if comm, err = s.open(); err == nil {
			s.mu.Lock()
			s.comm, s.groups, s.failed, s.bad = comm, nil, nil, false
			s.mu.Unlock()
			a.Group = &farGroup{Rank: comm.Rank(), Size: comm.Size()}
		}
	case "end":
		s.mu.Lock()
		bad := s.bad
		s.mu.Unlock()
		a.Clean = !bad && s.clean()
	case "world":
		a.Group = s.group(comm.World())
	case "among":
		var g jaccl.Group
		if g, err = comm.Among(r.Ranks); err == nil {
			a.Group = s.group(g)
		}
	case "fail":
		cause := errors.New(r.Text)
		s.mu.Lock()
		if s.failed == nil {
			s.failed = cause
		}
		s.bad = true
		s.mu.Unlock()
		comm.Fail(cause)
	case "close":
		err = comm.Close()
	default:
		s.mu.Lock()
		g := s.groups[r.Group]
		s.mu.Unlock()
		blocks := laid(r.Blocks)
		var child jaccl.Group
		child, err = call(ctx, g, r, buffers(r.Dst, blocks), buffers(r.Src, blocks))
		a.Group, a.Blocks = s.group(child), blocks
		if err != nil {
			s.mu.Lock()
			s.bad = true
			s.mu.Unlock()
		}
	}
	a.Err = describe(err, context.Cause(ctx), failed)
	return a
}

// call calls the method of g requested by r.
func call(ctx context.Context, g jaccl.Group, r *request, dst, src [][]byte) (jaccl.Group, error) {
	switch r.Kind {
	case "all_sum":
		return nil, g.AllSum(ctx, r.Call, dst[0], src[0])
	case "all_max":
		return nil, g.AllMax(ctx, r.Call, dst[0], src[0])
	case "all_min":
		return nil, g.AllMin(ctx, r.Call, dst[0], src[0])
	case "all_gather":
		return nil, g.AllGather(ctx, r.Call, dst[0], src[0])
	case "all_gather_v":
		return nil, g.AllGatherV(ctx, r.Call, dst, src[0])
	case "reduce_scatter":
		return nil, g.ReduceScatter(ctx, r.Call, dst[0], src[0])
	case "all_to_all":
		return nil, g.AllToAll(ctx, r.Call, dst, src)
	case "barrier":
		return nil, g.Barrier(ctx, r.Call)
	case "broadcast":
		return nil, g.Broadcast(ctx, r.Call, r.From, dst[0])
	case "send":
		return nil, g.Send(ctx, r.Call, r.To, src[0])
	case "recv":
		return nil, g.Recv(ctx, r.Call, r.From, dst[0])
	case "send_recv":
		return nil, g.SendRecv(ctx, r.Call, r.To, src[0], r.From, dst[0])
	case "split":
		return g.Split(ctx, r.Call, r.To, r.From)
	case "close group":
		return nil, g.Close()
	}
	return nil, fmt.Errorf("jaccltest: no method %q", r.Kind)
}
