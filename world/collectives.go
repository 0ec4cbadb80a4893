package world

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
)

// Same returns an error if facts, such as settings or hashes of files by their names, are
// not the same in all processes. The error names the first fact that differs, in the
// order of the names, with every value and its ranks; all processes get the same error,
// and the World stays usable. All processes call Same at the same point. It blocks until
// all have, up to the deadline. In a World that is in process it does nothing.
func (w *World) Same(ctx context.Context, facts map[string]string) error {
	s, err := w.ready()
	if err != nil || s.info.Mode == InProcess {
		return err
	}
	var text []byte
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		for _, part := range []string{name, facts[name]} {
			text = binary.LittleEndian.AppendUint32(text, uint32(len(part)))
			text = append(text, part...)
		}
	}
	sum := sha256.Sum256(text)
	sums, err := gather(ctx, s.comms[0].World(), sum[:])
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(sums, func(b []byte) bool { return !bytes.Equal(b, sums[0]) }) {
		return nil
	}
	texts, err := w.Gather(ctx, text)
	if err != nil {
		return err
	}
	all := make([]map[string]string, len(texts))
	names := map[string]bool{}
	for r, b := range texts {
		all[r] = parseFacts(b)
		for name := range all[r] {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if said := values(all, name); len(said) > 1 {
			return fmt.Errorf("gomoe: %s differs between ranks: %s; start all ranks with the same", name, strings.Join(said, ", "))
		}
	}
	return fmt.Errorf("gomoe: the ranks' facts differ, and no fact does: %q", texts)
}

// Gather returns the value of mine in every process, by rank. All processes call Gather
// at the same point. It blocks until all have, up to the deadline. In a World that is in
// process it returns mine.
func (w *World) Gather(ctx context.Context, mine []byte) ([][]byte, error) {
	s, err := w.ready()
	if err != nil || s.info.Mode == InProcess {
		return [][]byte{mine}, err
	}
	g := s.comms[0].World()
	sizes, err := gather(ctx, g, binary.LittleEndian.AppendUint64(nil, uint64(len(mine))))
	if err != nil {
		return nil, err
	}
	size := func(r int) int { return int(binary.LittleEndian.Uint64(sizes[r])) }
	longest := 0
	for r := range sizes {
		longest = max(longest, size(r))
	}
	if longest == 0 {
		return make([][]byte, len(sizes)), nil
	}
	all, err := gather(ctx, g, append(slices.Clone(mine), make([]byte, longest-len(mine))...))
	for r := range all {
		all[r] = all[r][:size(r)]
	}
	return all, err
}

// gather returns the value of mine in every process, by rank. All have the same length.
func gather(ctx context.Context, g jaccl.Group, mine []byte) ([][]byte, error) {
	all := make([]byte, len(mine)*g.Size())
	c := collective.Call{Op: "all_gather", DType: graph.U8, Bytes: int64(len(mine)), Pos: graph.Pos{File: "World.Same"}}
	if err := g.AllGather(ctx, c, all, mine); err != nil {
		return nil, fmt.Errorf("gomoe: %w", err)
	}
	return slices.Collect(slices.Chunk(all, len(mine))), nil
}

// parseFacts reads the names and values of facts, each preceded by its length.
func parseFacts(b []byte) map[string]string {
	var parts []string
	for len(b) >= 4 {
		n := min(int(binary.LittleEndian.Uint32(b)), len(b)-4)
		parts = append(parts, string(b[4:4+n]))
		b = b[4+n:]
	}
	facts := map[string]string{}
	for pair := range slices.Chunk(parts, 2) {
		facts[pair[0]] = pair[len(pair)-1]
	}
	return facts
}

// shown is the number of characters of a value shown in an error.
const shown = 81

// values lists the distinct values of a fact, each with its ranks.
func values(all []map[string]string, name string) []string {
	var order []string
	have := map[string][]string{}
	for r, facts := range all {
		v, ok := facts[name]
		v = fmt.Sprintf("%q", v)
		if !ok {
			v = "nothing"
		}
		if have[v] == nil {
			order = append(order, v)
		}
		have[v] = append(have[v], fmt.Sprint(r))
	}
	for i, v := range order {
		who := "rank " + have[v][0] + " has "
		if ranks := have[v]; len(ranks) > 1 {
			who = "ranks " + strings.Join(ranks[:len(ranks)-1], ", ") + " and " + ranks[len(ranks)-1] + " have "
		}
		if text := []rune(v); len(text) > shown {
			v = string(text[:shown]) + `…"`
		}
		order[i] = who + v
	}
	return order
}

// Warmup runs one small collective of each kind that the transport has, among all ranks.
// So the first step does not pay for setting up connections and memory, and problems are
// found before it. All processes call Warmup at the same point. Setup does not call it.
func (w *World) Warmup(ctx context.Context) error {
	s, err := w.ready()
	if err != nil {
		return err
	}
	if err := s.all(func(c jaccl.Communicator) error { return warm(ctx, c.World()) }); err != nil {
		return fmt.Errorf("gomoe: warm-up: %w", err)
	}
	return nil
}

// warm runs the collectives in a group.
func warm(ctx context.Context, g jaccl.Group) error {
	n := g.Size()
	mine := make([]byte, 4*n)
	all := make([]byte, 4*n*n)
	parts, others := make([][]byte, n), make([][]byte, n)
	for i := range parts {
		parts[i], others[i] = mine[4*i:4*i+4], make([]byte, 4)
	}
	call := func(op string) collective.Call {
		return collective.Call{Op: op, DType: graph.I32, Bytes: int64(len(mine)), Pos: graph.Pos{File: "World.Warmup"}}
	}
	next, before := (g.Rank()+1)%n, (g.Rank()+n-1)%n
	for _, op := range []struct {
		name string
		run  func(c collective.Call) error
	}{
		{"all_sum", func(c collective.Call) error { return g.AllSum(ctx, c, all[:len(mine)], mine) }},
		{"all_max", func(c collective.Call) error { return g.AllMax(ctx, c, all[:len(mine)], mine) }},
		{"all_min", func(c collective.Call) error { return g.AllMin(ctx, c, all[:len(mine)], mine) }},
		{"all_gather", func(c collective.Call) error { return g.AllGather(ctx, c, all, mine) }},
		{"all_gather_v", func(c collective.Call) error { return g.AllGatherV(ctx, c, others, mine[:4]) }},
		{"reduce_scatter", func(c collective.Call) error { return g.ReduceScatter(ctx, c, all[:4], mine) }},
		{"all_to_all", func(c collective.Call) error { return g.AllToAll(ctx, c, others, parts) }},
		{"broadcast", func(c collective.Call) error { return g.Broadcast(ctx, c, 0, mine) }},
		{"send_recv", func(c collective.Call) error {
			if n == 1 {
				return nil // there is no other rank
			}
			return g.SendRecv(ctx, c, next, mine[:4], before, all[:4])
		}},
		{"barrier", func(c collective.Call) error { return g.Barrier(ctx, c) }},
	} {
		// MLX's ring lacks some of the operations. Programs that need them get an error
		// then.
		if err := op.run(call(op.name)); err != nil && !errors.Is(err, jaccl.ErrUnsupported) {
			return err
		}
	}
	return nil
}

// Any reports whether any process passes yes. All processes call it at the same point and
// get the same answer. They can thus agree whether to stop, for example after a signal
// that reached them at different times.
func (w *World) Any(ctx context.Context, yes bool) (bool, error) {
	s, err := w.ready()
	if err != nil || s.info.Mode == InProcess {
		return yes, err
	}
	var b [4]byte
	if yes {
		binary.NativeEndian.PutUint32(b[:], 1)
	}
	c := collective.Call{Op: "all_max", DType: graph.I32, Bytes: int64(len(b)), Pos: graph.Pos{File: "World.Any"}}
	if err := s.comms[0].World().AllMax(ctx, c, b[:], b[:]); err != nil {
		return false, fmt.Errorf("gomoe: %w", err)
	}
	return binary.NativeEndian.Uint32(b[:]) != 0, nil
}
