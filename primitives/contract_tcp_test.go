package primitives_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/link/tcp"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// sent is how much has been written to the connections of a job.
type sent struct{ messages, bytes atomic.Int64 }

// since returns the messages and the bytes since the last call.
func (s *sent) since() (messages, bytes int64) { return s.messages.Swap(0), s.bytes.Swap(0) }

// countedSite is a site with connections counting the bytes written.
type countedSite struct {
	link.Site
	sent *sent
}

func (s countedSite) Dial(ctx context.Context, purpose string) ([]net.Conn, error) {
	conns, err := s.Site.Dial(ctx, purpose)
	for i, c := range conns {
		if c != nil {
			conns[i] = countedConn{c, s.sent}
		}
	}
	return conns, err
}

type countedConn struct {
	net.Conn
	sent *sent
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.messages.Add(1)
	c.sent.bytes.Add(int64(n))
	return n, err
}

// overTCP returns the communicators of n ranks joined by tcp, and the bytes they send.
func overTCP(t *testing.T, n int) ([]collective.Communicator, *sent) {
	t.Helper()
	count, links, errs := new(sent), make([]link.Link, n), make([]error, n)
	var all sync.WaitGroup
	for i, site := range jaccltest.Sites(n) {
		all.Go(func() { links[i], errs[i] = tcp.Connect(t.Context(), countedSite{site, count}) })
	}
	all.Wait()
	comms := make([]collective.Communicator, n)
	for i := range comms {
		require.NoError(t, errs[i])
	}
	for i, c := range jaccltest.Connect(t, links, time.Minute) {
		comms[i] = c
		t.Cleanup(func() { require.NoError(t, c.Close()) })
	}
	return comms, count
}

// What one token of 7168 numbers with 8 of 256 experts sends over tcp is what one bare all_sum of
// the same bytes sends: as many messages, and as many bytes but for the line that each message
// names.
func TestContractOneTokenOverTCP(t *testing.T) {
	const hidden, k, experts = 7168, 8, 256
	chosen := make([]int32, k)
	for i := range chosen {
		chosen[i] = int32(i * experts / k)
	}
	for _, ranks := range []int{2, 3} {
		for _, c := range []struct {
			exchange ep.Exchange
			wire     graph.DType
		}{{ep.Rows, graph.NoDType}, {ep.Sum, graph.NoDType}, {ep.Sum, graph.BF16}, {ep.Sum, graph.F16}} {
			t.Run(fmt.Sprint(ranks, " ranks ", c.exchange, " ", c.wire), func(t *testing.T) {
				p := trace(t, func(tr *graph.Tracer) []*graph.Value {
					r := primitives.Prepare(primitives.PrepareOp{Experts: experts, Exchange: c.exchange, Wire: c.wire}, tr.Input("idx", graph.I32, 1, k))
					return []*graph.Value{primitives.Combine(r, primitives.Dispatch(r, tr.Input("x", graph.F32, 1, hidden)))}
				})
				plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: spread{mesh: fmt.Sprint("ep=", ranks)}.parse(t)})
				require.NoError(t, err)
				made := plan.Report(1).Comm.Collectives
				require.Len(t, made, 1)
				comms, sent := overTCP(t, ranks)
				session, err := runtime.Open(plan, comms, runtime.Options{})
				require.NoError(t, err)
				in := map[string]*runtime.Array{}
				for name, a := range map[string]array.Array{"idx": ids(chosen, 1, k), "x": uniform(-1, 1)(rng(1), graph.T(graph.F32, 1, hidden))} {
					in[name], err = session.Put(name, a)
					require.NoError(t, err)
				}
				sent.since()
				_, err = session.Run(t.Context(), in)
				require.NoError(t, err)
				messages, bytes := sent.since()

				size, d := made[0].Bytes, graph.F32
				if c.wire != graph.NoDType {
					d = c.wire
				}
				var all sync.WaitGroup
				for _, comm := range comms {
					g, err := comm.Group(everyRank(ranks))
					require.NoError(t, err)
					all.Go(func() {
						if err := g.AllSum(t.Context(), collective.Call{Op: "all_sum", DType: d, Bytes: size}, make([]byte, size), make([]byte, size)); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				bareMessages, bareBytes := sent.since()
				t.Logf("one token: %d messages, %d bytes; a bare all_sum: %d messages, %d bytes", messages, bytes, bareMessages, bareBytes)
				require.Equal(t, bareMessages, messages)
				require.Positive(t, messages)
				require.GreaterOrEqual(t, bareBytes, size*int64(ranks-1)) // something was counted
				require.InDelta(t, bareBytes, bytes, float64(100*messages))
				require.LessOrEqual(t, float64(bytes), 1.2*float64(bareBytes))
			})
		}
	}
}

// everyRank returns the ranks of a job of n.
func everyRank(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
