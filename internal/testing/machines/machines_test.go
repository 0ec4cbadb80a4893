//go:build linux

package machines

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/fleet"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/world"
)

const (
	machines, each = 2, 2
	ranks          = machines * each
	tokens         = 256 * ranks
	hidden         = 1024
	experts, k     = 32, 8
	row            = 2 * hidden // bytes
)

func TestMain(m *testing.M) {
	fleet.Main(map[string]fleet.Program{"layer": layer})
	flag.Parse()
	os.Exit(m.Run())
}

// choices returns the experts of each token: k that differ.
func choices() []int32 {
	r := rand.New(rand.NewPCG(5, 6))
	var out []int32
	for range tokens {
		for _, e := range r.Perm(experts)[:k] {
			out = append(out, int32(e))
		}
	}
	return out
}

// layer is a rank that runs a layer twice and reports the bytes that its machine sent meanwhile
// the second time, and the hash of the results.
func layer(r *fleet.Rank) error {
	ctx := context.Background()
	var w world.World
	if err := w.Setup(ctx, world.Config{Mode: world.PerProcess, Deadline: 2 * time.Minute}); err != nil {
		return err
	}
	defer w.Close()
	info, err := w.Info()
	if err != nil {
		return err
	}
	mesh, err := sharding.ParseMesh(r.Args["mesh"])
	if err != nil {
		return err
	}
	p, err := graph.Trace("layer", func(t *graph.Tracer) []*graph.Value {
		idx, x := t.Input("idx", graph.I32, tokens, k), t.Input("x", graph.BF16, tokens, hidden)
		l := primitives.Prepare(primitives.PrepareOp{Experts: experts, Exchange: ep.Exchange(r.Args["exchange"])}, idx)
		return []*graph.Value{primitives.Combine(l, primitives.Dispatch(l, x))}
	})
	if err != nil {
		return err
	}
	tokens := sharding.Split("ep")
	cfg := gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"idx": tokens, "x": tokens}}
	cfg.World = &w
	job, err := gomoe.Open(context.Background(), p, cfg)
	if err != nil {
		return err
	}
	defer job.Close()
	comms, err := w.Communicators()
	if err != nil {
		return err
	}
	args := map[string]*runtime.Array{}
	for _, v := range p.In {
		a := array.New(v.Type)
		x := make([]float64, a.Type.Len())
		random := rand.New(rand.NewPCG(7, 8))
		for i := range x {
			x[i] = 2*random.Float64() - 1
		}
		if v.Name == "idx" {
			for i, e := range choices() {
				x[i] = float64(e)
			}
		}
		if err := a.SetFloat64s(x); err != nil {
			return err
		}
		if args[v.Name], err = job.Put(v.Name, a); err != nil {
			return err
		}
	}
	hash := ""
	for step := range 2 {
		before, err := sent(comms[0].World(), 2*step)
		if err != nil {
			return err
		}
		out, err := job.Run(ctx, args)
		if err != nil {
			return err
		}
		after, err := sent(comms[0].World(), 2*step+1)
		if err != nil {
			return err
		}
		y, err := job.Get(ctx, out[0])
		if err != nil {
			return err
		}
		hash = fmt.Sprintf("%x", sha256.Sum256(y.Bytes()))
		if step == 1 {
			r.Say("sent", strconv.FormatInt(after-before, 10), map[string]string{"hash": hash, "transport": info.Transport})
		}
	}
	return nil
}

// sent returns the bytes that the machine has sent to others, once all ranks have come here, and
// before any of them leaves.
func sent(g collective.Group, n int) (int64, error) {
	if err := g.Barrier(context.Background(), collective.Call{Op: "barrier", Seq: 2 * n}); err != nil {
		return 0, err
	}
	text, err := os.ReadFile("/sys/class/net/eth0/statistics/tx_bytes")
	if err != nil {
		return 0, err
	}
	bytes, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, err
	}
	return bytes, g.Barrier(context.Background(), collective.Call{Op: "barrier", Seq: 2*n + 1})
}

// run runs the layer on two machines of two ranks. It returns what each machine has sent, and the
// hash of the results, which is the same on all ranks.
func run(t *testing.T, network *fleet.Network, mesh string, exchange ep.Exchange) (bytes [machines]int64, hash string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	f := fleet.Start(t, "layer", ranks, fleet.Options{
		Args: map[string]string{"mesh": mesh, "exchange": string(exchange)},
		Env: []string{"GOMOE_SECRET=a secret that is only for tests", fmt.Sprintf("GOMOE_COORDINATOR=%s:%d", network.Address(0), port), fmt.Sprintf("GOMOE_SIZE=%d", ranks),
			fmt.Sprintf("GOMOE_JOB=0d7f3c9e-8a1f-4b3e-9a52-%012x", port), "GOMAXPROCS=1"},
		EnvOf: func(rank int) []string { return []string{fmt.Sprintf("GOMOE_RANK=%d", rank)} },
		In:    func(rank int) []string { return network.Machine(rank / each) },
	})
	for _, p := range f.Procs {
		e := p.Await(t, "sent", 4*time.Minute)
		require.ElementsMatch(t, []string{"shm", "tcp"}, strings.Split(e.More["transport"], "+"))
		n, err := strconv.ParseInt(e.Text, 10, 64)
		require.NoError(t, err)
		bytes[p.Rank/each] = n
		if hash == "" {
			hash = e.More["hash"]
		}
		require.Equal(t, hash, e.More["hash"])
	}
	for _, p := range f.Procs {
		require.NoError(t, p.Ended(t, 2*time.Minute))
	}
	return bytes, hash
}

// Between two machines of two ranks, a token's row goes once to the other machine where the mesh
// says ep=2x2, and its sum comes back once; with ep=4 it goes once to each rank there. What
// machines send is read from their network interfaces: rows, choices, and what transports add.
// Results are the same to the bit where rows come home.
func TestARowCrossesOnce(t *testing.T) {
	var toMachine, toRanks, pairs [machines]int64 // rows that leave a machine
	for i, e := range choices() {
		home := i / k * machines / tokens
		if on := int(e) * machines / experts; on != home {
			pairs[home]++
		}
	}
	all := choices()
	for i := range tokens {
		home := i * machines / tokens
		there := map[int32]bool{}
		for _, e := range all[i*k : (i+1)*k] {
			if rank := e * ranks / experts; int(rank)/each != home {
				there[rank] = true
			}
		}
		toRanks[home] += int64(len(there))
		if len(there) > 0 {
			toMachine[home]++
		}
	}
	const gathered = tokens / machines * k * 4 * each // choices of a machine's tokens, to each rank of the other
	near := func(t *testing.T, got, rows int64, more int64) {
		t.Helper()
		want := rows*row + more
		require.GreaterOrEqual(t, got, want)
		require.Less(t, got, want*105/100+64<<10)
	}
	network := fleet.NewNetwork(t, machines)
	two, _ := run(t, network, "ep=2x2", ep.Sum)
	one, _ := run(t, network, "ep=4", ep.Sum)
	for m := range machines {
		t.Logf("machine %d sends %d bytes with ep=2x2, %d with ep=4", m, two[m], one[m])
		near(t, two[m], toMachine[m]+toMachine[1-m], gathered)
		require.Greater(t, one[m], (toRanks[m]+toRanks[1-m])*row)
		require.Greater(t, one[m], two[m]*3/2)
	}
	two, rows := run(t, network, "ep=2x2", ep.Rows)
	_, plain := run(t, network, "ep=4", ep.Rows)
	require.Equal(t, plain, rows)
	for m := range machines {
		near(t, two[m], toMachine[m]+pairs[1-m], gathered)
	}
}
