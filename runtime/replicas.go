package runtime

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
)

// DefaultCompare is the default of Options.Compare, the number of steps between
// comparisons of inputs. A comparison reads each input that ranks have in common once,
// except inputs that have not changed since the last comparison. In a training step of
// examples/moe_lm at its default size on the mesh dp=2, where ranks have all weights in
// common, a comparison took a third of the time of the step: 0.2% if made every 200
// steps.
const DefaultCompare = 200

// sumBytes is the number of bytes that ranks exchange per input.
const sumBytes = 8

// compare returns the number of steps between comparisons; 0 means that only the first
// step begins with one.
func (o Options) compare() int {
	if o.Compare == 0 {
		return DefaultCompare
	}
	return max(o.Compare, 0)
}

// sameInputs compares the inputs of a step that ranks in different processes have in
// common, if a comparison is due.
func (s *Session) sameInputs(ctx context.Context) error {
	every := s.opts.compare()
	if len(s.ranks) == s.plan.Mesh.Ranks() || s.step > 0 && (every == 0 || s.step%every != 0) {
		return nil
	}
	return s.each(ctx, func(r *rank, ctx context.Context) error { return r.sameInputs(ctx, s.step) })
}

// summed is the checksum of an input in an earlier step.
type summed struct {
	of  contents
	sum [sumBytes]byte
}

// sameInputs compares checksums of the parts of inputs that several ranks hold. Every
// rank gets the checksums of all ranks, so all ranks return the same error.
func (r *rank) sameInputs(ctx context.Context, step int) error {
	var common []int // inputs
	var mine []byte
	for i, p := range r.plan.In {
		if r.plan.Mesh.Parts(p.Spec.Varies()) < r.plan.Mesh.Ranks() {
			common = append(common, i)
			last := &r.summed[i]
			if now := r.contents[p.Buf]; now == (contents{}) || now != last.of {
				*last = summed{now, checksum(r.bufs[p.Buf])}
			}
			mine = append(mine, last.sum[:]...)
		}
	}
	if len(common) == 0 {
		return nil
	}
	all, err := r.gather(ctx, "inputs of "+r.plan.Name, mine)
	if err != nil {
		return fmt.Errorf("runtime: compare inputs before step %d: %w", step+1, err)
	}
	var others []string // inputs after the first one differing
	var found error
	for k, i := range common {
		sums := make([][sumBytes]byte, r.comm.Size())
		for rank := range sums {
			sums[rank] = [sumBytes]byte(all[rank*len(mine)+k*sumBytes:])
		}
		said := r.differences(i, sums)
		switch p := r.plan.In[i]; {
		case said == "":
		case found == nil:
			found = fmt.Errorf("runtime: input %s %s of %s is not the same on all ranks that hold it, before step %d: %s",
				p.Name, p.Spec.Format(p.Type), r.plan.Name, step+1, said)
		default:
			others = append(others, p.Name)
		}
	}
	if found == nil {
		return nil
	}
	if n := len(others); n > 3 {
		others = append(others[:3], fmt.Sprintf("%d more", n-3))
	}
	if len(others) > 0 {
		found = fmt.Errorf("%w (also: %s)", found, strings.Join(others, ", "))
	}
	return &exec.AgreedError{Err: fmt.Errorf("%w; start all ranks with the same flags (-lr, -seed, -data and others), files and kernels", found)}
}

// gather returns b of every rank; all have the same length.
func (r *rank) gather(ctx context.Context, what string, b []byte) ([]byte, error) {
	all := make([]int, r.comm.Size())
	for i := range all {
		all[i] = i
	}
	g, err := r.comm.Group(all)
	if err != nil {
		return nil, err
	}
	got := make([]byte, len(b)*len(all))
	c := collective.Call{Op: "all_gather", DType: graph.U8, Bytes: int64(len(b)), Pos: graph.Pos{File: what}}
	return got, g.AllGather(ctx, c, got, b)
}

// checksum returns the bytes of a if they fit, so that an error can show the number, else
// a CRC. It is the same in every process. Processors for which gomoe has kernels compute
// it with dedicated instructions.
func checksum(a array.Array) (sum [sumBytes]byte) {
	if a.Type.Bytes() <= int64(len(sum)) {
		copy(sum[:], a.Dense().Bytes())
		return sum
	}
	table, crc := crc32.MakeTable(crc32.Castagnoli), uint32(0)
	if !a.HasSlabs() {
		crc = crc32.Checksum(a.Bytes(), table)
	} else {
		for i := range a.Type.Shape[0] {
			crc = crc32.Update(crc, table, a.Slab(i))
		}
	}
	binary.LittleEndian.PutUint32(sum[:], crc)
	return sum
}

// differences names the ranks holding another part of the i-th input than most of the
// ranks meant to hold the same part; "" if none.
func (r *rank) differences(i int, sums [][sumBytes]byte) string {
	p, m := r.plan.In[i], r.plan.Mesh
	axes := p.Spec.Varies()
	holders := make([][]int, m.Parts(axes)) // by part
	for rank := range sums {
		part := m.Index(rank, axes)
		holders[part] = append(holders[part], rank)
	}
	var said []string
	for _, ranks := range holders {
		same := map[[sumBytes]byte][]int{}
		usual := sums[ranks[0]]
		for _, rank := range ranks {
			same[sums[rank]] = append(same[sums[rank]], rank)
			if len(same[sums[rank]]) > len(same[usual]) {
				usual = sums[rank]
			}
		}
		var odd []int
		for _, rank := range ranks {
			if sums[rank] != usual {
				odd = append(odd, rank)
			}
		}
		if len(odd) == 0 {
			continue
		}
		if t := p.Spec.Local(m, p.Type); t.Len() == 1 && t.Bytes() <= sumBytes {
			value := func(rank int) string {
				return strings.TrimPrefix(array.Over(t, slices.Clone(sums[rank][:])).String(), t.String()+" ")
			}
			said = append(said, fmt.Sprintf("%s %s where %s %s", ranksHave(odd[:1]), value(odd[0]), ranksHave(same[usual]), value(same[usual][0])))
			continue
		}
		said = append(said, fmt.Sprintf("%s other elements than %s", ranksHave(odd), ranksNamed(same[usual])))
	}
	return strings.Join(said, "; ")
}

// ranksNamed is, for example, "rank 1" or "ranks 0, 2 and 3".
func ranksNamed(ranks []int) string {
	names := make([]string, len(ranks))
	for i, r := range ranks {
		names[i] = fmt.Sprint(r)
	}
	last := len(names) - 1
	if last == 0 {
		return "rank " + names[0]
	}
	return "ranks " + strings.Join(names[:last], ", ") + " and " + names[last]
}

func ranksHave(ranks []int) string {
	if len(ranks) == 1 {
		return ranksNamed(ranks) + " has"
	}
	return ranksNamed(ranks) + " have"
}
