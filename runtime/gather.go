package runtime

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
)

// Get returns a copy of the global array a, including the parts that other processes
// hold. a is a result of the session or comes from Put. Every process calls Get for the
// same arrays in the same order, between steps. Get blocks on the other processes as a
// step does, and fails like a step.
//
// Each rank gets the parts from the ranks differing from it only along the axes splitting
// the array. These hold the nearest replicas; all replicas have the same bits. If no axis
// splits the array, it is already here, and there is no wait.
func (s *Session) Get(ctx context.Context, a *Array) (array.Array, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case a == nil:
		return array.Array{}, errors.New("runtime: get: no array, want one that a step of the session has returned")
	case a.spent != "":
		return array.Array{}, fmt.Errorf("runtime: get %s: its memory was %s", a.Type, a.spent)
	case !s.holds(a):
		return array.Array{}, fmt.Errorf("runtime: get %s: %w", a.Type, s.elsewhere(a))
	}
	if err := a.pending(); err != nil {
		return array.Array{}, err
	}
	axes := a.Spec.Axes()
	if len(s.local) == s.plan.Mesh.Ranks() || a.mesh.Parts(axes) == 1 {
		return a.Get()
	}
	if err := s.agree(ctx); err != nil {
		return array.Array{}, err
	}
	gathered := make([][]byte, len(s.ranks))
	size := int(a.Spec.Local(a.mesh, a.Type).Bytes()) // smaller parts are padded
	err := s.each(ctx, func(r *rank, ctx context.Context) error {
		i := slices.Index(s.local, r.comm.Rank())
		part := a.parts[i].Dense().Bytes()
		if len(part) < size {
			part = append(part[:len(part):len(part)], make([]byte, size-len(part))...)
		}
		g, err := r.comm.Group(a.mesh.Group(r.comm.Rank(), axes))
		if err == nil {
			gathered[i] = make([]byte, len(part)*g.Size())
			c := collective.Call{Op: "all_gather", DType: a.Type.DType, Bytes: int64(len(part)), Pos: graph.Pos{File: "Session.Get"}}
			err = g.AllGather(ctx, c, gathered[i], part)
		}
		if err != nil {
			return fmt.Errorf("runtime: get %s: %w", a.Spec.Format(a.Type), err)
		}
		return nil
	})
	if err != nil {
		return array.Array{}, err
	}
	goruntime.KeepAlive(a)
	out := array.New(a.Type)
	for k, member := range a.mesh.Group(s.local[0], axes) {
		start, part := a.Spec.Box(a.mesh, member, a.Type)
		array.CopyBox(out, start, array.Over(part, gathered[0][k*size:(k+1)*size]), nil, part.Shape)
	}
	return out, nil
}
