package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/sharding"
)

// homeSums reports whether -compare compares logits combined as sums, which may differ in their last bits.
func (g *writing) homeSums() bool { return g.compare != "" && g.o.Exchange == ep.Sum }

// compared returns the meshes of -compare. In a job of several processes, all take part in each comparison: replicas of the expert
// group compute the same.
func (g *writing) compared() (meshes []sharding.Mesh, ranks []int, err error) {
	job, err := environ.Detect(os.Getenv)
	if err != nil {
		return nil, nil, err
	}
	for _, text := range strings.Split(g.compare, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		switch {
		case err != nil || n < 1:
			return nil, nil, usagef("-compare %s: want numbers of ranks such as 1,2,4", quoted.Text(g.compare))
		case n > g.model.Experts:
			return nil, nil, usagef("-compare %s: the model has %d experts, want at most as many ranks", g.compare, g.model.Experts)
		case job.Size > 1 && job.Size%n != 0:
			return nil, nil, usagef("-compare %s: the job's %d processes cannot be divided into groups of %d ranks", g.compare, job.Size, n)
		}
		on := fmt.Sprintf("ep=%d", n)
		if job.Size > n {
			on = fmt.Sprintf("dp=%d,ep=%d", job.Size/n, n)
		}
		mesh, err := sharding.ParseMesh(on)
		if err != nil {
			return nil, nil, err
		}
		meshes, ranks = append(meshes, mesh), append(ranks, n)
	}
	return meshes, ranks, nil
}

// ways returns the two sampling settings to compare: the flags' setting, and greedy decoding if the flags sample, or sampling if they
// are greedy.
func (g *writing) ways() []generate.Sampling {
	other := g.s
	if other.Temperature == 0 {
		other.Temperature = 1
	} else {
		other.Temperature, other.TopK, other.TopP, other.MinP = 0, 0, 0, 0
	}
	return []generate.Sampling{g.s, other}
}

// compareRanks generates with the experts on several numbers of ranks and compares the tokens, or the logits if the return path sends
// sums. After a difference it continues, because all processes must, and returns the difference at the end.
func (g *writing) compareRanks(ctx context.Context) error {
	meshes, ranks, err := g.compared()
	if err != nil {
		return err
	}
	ways := g.ways()
	write := func(mesh sharding.Mesh, x ep.Exchange, wire graph.DType) ([]written, error) {
		o := g.o
		o.Mesh, o.Exchange, o.Wire = mesh, x, wire
		if o.Copies, err = g.copies.parse(mesh); err != nil {
			return nil, err
		}
		texts, err := g.write(ctx, o, ways...)
		if g.quiet = true; err != nil {
			return nil, fmt.Errorf("on the mesh %s: %w", mesh, err)
		}
		return texts, nil
	}
	var first []written
	if g.homeSums() { // sums are compared with rows
		if first, err = write(meshes[0], ep.Rows, graph.NoDType); err != nil {
			return err
		}
	}
	var wrong []error
	var done []string
	for i, mesh := range meshes {
		texts, err := write(mesh, g.o.Exchange, g.o.Wire)
		if err != nil {
			return err
		}
		switch {
		case g.follows:
		case g.homeSums():
			wrong = append(wrong, g.near(ranks[i], first, texts))
		case i == 0:
			first = texts
		default:
			for w := range ways {
				wrong = append(wrong, sameTokens(ranks[i], first[w].ids, texts[w].ids))
			}
		}
		done = append(done, strconv.Itoa(ranks[i]))
	}
	if err := errors.Join(wrong...); err != nil || g.follows || g.homeSums() {
		return err
	}
	fmt.Fprintf(g.stderr, "%d tokens at temperature %g and %d at temperature %g, the same on %s ranks\n", len(first[0].ids), ways[0].Temperature, len(first[1].ids), ways[1].Temperature, strings.Join(done, ", "))
	return nil
}

// sameTokens returns an error if the tokens generated on this number of ranks differ from the first run's.
func sameTokens(ranks int, first, ids []int32) error {
	for at := range max(len(first), len(ids)) {
		if at >= len(first) || at >= len(ids) || first[at] != ids[at] {
			return fmt.Errorf("token %d on %d ranks is not that of the first: %v and %v", at, ranks, ids[min(at, len(ids)):], first[min(at, len(first)):])
		}
	}
	return nil
}

// near reports the difference between logits computed with sums and with rows, for as long as the preceding tokens are equal. It is an
// error if the difference exceeds the rounding errors of the sums' element type, or of the element type of the computation.
func (g *writing) near(ranks int, rows, sums []written) error {
	largest, off, same, all := 0.0, 0.0, 0, 0
	for w := range rows {
		all += len(rows[w].ids)
		for at := range min(len(rows[w].ids), len(sums[w].ids)) {
			for i, x := range rows[w].logits[at] {
				largest, off = max(largest, math.Abs(float64(x))), max(off, math.Abs(float64(x)-float64(sums[w].logits[at][i])))
			}
			if rows[w].ids[at] != sums[w].ids[at] {
				break
			}
			same++
		}
	}
	most := max(nearBy(g.o.Wire), nearBy(models.DType(g.c)))
	text := fmt.Sprintf("on %d ranks logits of up to %.3g are off by %.2g, which is %.2g of the largest, and %g of it is what sums may change; %d of %d tokens are the same", ranks, largest, off, off/max(largest, 1e-30), most, same, all)
	if !(off <= most*largest) { // a NaN is neither
		return errors.New(text)
	}
	fmt.Fprintln(g.stderr, text)
	return nil
}

// nearBy returns the accepted change of logits by sums in an element type, relative to the largest logit: 20 roundings of bf16, and
// more roundings of wider types.
func nearBy(d graph.DType) float64 {
	switch d {
	case graph.BF16:
		return 2e-2
	case graph.F16:
		return 2e-3
	}
	return 1e-5
}
