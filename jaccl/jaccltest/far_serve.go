package jaccltest

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/gomoe/gomoe/jaccl"
)

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
