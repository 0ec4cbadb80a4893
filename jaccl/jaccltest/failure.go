package jaccltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
)

// expect checks that every rank has an error, and that every error contains all words.
func expect(t *testing.T, errs []error, words ...string) {
	t.Helper()
	for rank, err := range errs {
		if err == nil {
			t.Errorf("rank %d succeeded, want an error with %q", rank, words)
			continue
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("rank %d: %q does not say %q", rank, err, w)
			}
		}
	}
}

// poisoned checks that collectives of every group fail from now on, with errors
// containing all words.
func poisoned(t *testing.T, comms []jaccl.Communicator, words ...string) {
	t.Helper()
	expect(t, Each(comms, func(c jaccl.Communicator) error {
		g, err := c.Group([]int{c.Rank()})
		for end := time.Now().Add(patience); err == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
			// A rank that took no part learns of the failure only from a message.
			err = g.Barrier(background(), collective.Call{Op: "barrier", Seq: 99})
		}
		return err
	}), words...)
}

// mismatch: every member's error names both sides, and nothing is written.
func (s suite) mismatch(t *testing.T) {
	at := func(op string, seq int, d graph.DType, bytes int64, line int) collective.Call {
		return collective.Call{Op: op, Seq: seq, DType: d, Bytes: bytes, Pos: graph.Pos{File: "moe.go", Line: line}}
	}
	sum := func(ctx context.Context, g jaccl.Group, c collective.Call, n int, dst []byte) error {
		return g.AllSum(ctx, c, dst[:n], make([]byte, n))
	}
	parts := func(g jaccl.Group, c collective.Call, send, receive []int, dst []byte) error {
		d, s := make([][]byte, len(receive)), make([][]byte, len(send))
		for i := range d {
			d[i], s[i] = dst[16*i:][:receive[i]], make([]byte, send[i])
		}
		return g.AllToAll(background(), c, d, s)
	}
	base := at("all_sum", 3, graph.F32, 16, 12)
	cases := []struct {
		name string
		odd  func(g jaccl.Group, dst []byte) error // the call of rank 1
		rest func(g jaccl.Group, dst []byte) error // nil for the sum of base
		want []string
	}{
		{"op", func(g jaccl.Group, dst []byte) error {
			return g.AllGather(background(), at("all_gather", 3, graph.F32, 16, 14), dst[:48], make([]byte, 16))
		}, nil, []string{"rank 1 calls all_gather #3 f32 16 bytes (moe.go:14) where rank 0 calls all_sum #3 f32 16 bytes (moe.go:12)"}},
		{"seq", func(g jaccl.Group, dst []byte) error {
			return sum(background(), g, at("all_sum", 4, graph.F32, 16, 12), 16, dst)
		}, nil, []string{"rank 1 calls all_sum #4", "rank 0 calls all_sum #3"}},
		{"dtype", func(g jaccl.Group, dst []byte) error {
			return sum(background(), g, at("all_sum", 3, graph.I32, 16, 12), 16, dst)
		}, nil, []string{"rank 1 calls all_sum #3 i32", "rank 0 calls all_sum #3 f32"}},
		{"bytes", func(g jaccl.Group, dst []byte) error {
			return sum(background(), g, at("all_sum", 3, graph.F32, 32, 12), 16, dst)
		}, nil, []string{"rank 1 calls all_sum #3 f32 32 bytes", "rank 0 calls all_sum #3 f32 16 bytes"}},
		{"length", func(g jaccl.Group, dst []byte) error {
			return sum(background(), g, base, 8, dst)
		}, nil, []string{"rank 1", "8 bytes", "rank 0", "16", "moe.go:12"}},
		{"gather length", func(g jaccl.Group, dst []byte) error {
			return g.AllGather(background(), at("all_gather", 3, graph.U8, 4, 9), dst[:15], make([]byte, 5))
		}, func(g jaccl.Group, dst []byte) error {
			return g.AllGather(background(), at("all_gather", 3, graph.U8, 4, 9), dst[:12], make([]byte, 4))
		}, []string{"rank 1", "5 bytes", "rank 0", "4", "moe.go:9"}},
		{"scatter length", func(g jaccl.Group, dst []byte) error {
			return g.ReduceScatter(background(), at("reduce_scatter", 3, graph.U8, 4, 9), dst[:5], make([]byte, 15))
		}, func(g jaccl.Group, dst []byte) error {
			return g.ReduceScatter(background(), at("reduce_scatter", 3, graph.U8, 4, 9), dst[:4], make([]byte, 12))
		}, []string{"rank 1", "15 bytes", "rank 0", "12", "moe.go:9"}},
		{"part", func(g jaccl.Group, dst []byte) error {
			return parts(g, at("all_to_all", 7, graph.U8, 0, 5), []int{2, 2, 7}, []int{2, 2, 2}, dst)
		}, func(g jaccl.Group, dst []byte) error {
			return parts(g, at("all_to_all", 7, graph.U8, 0, 5), []int{2, 2, 2}, []int{2, 2, 2}, dst)
		}, []string{"rank 1 sends 7 bytes to rank 2", "expects 2", "all_to_all #7", "moe.go:5"}},
		{"max or min", func(g jaccl.Group, dst []byte) error {
			return g.AllMax(background(), at("all_max", 3, graph.F32, 16, 12), dst[:16], make([]byte, 16))
		}, func(g jaccl.Group, dst []byte) error {
			return g.AllMin(background(), at("all_min", 3, graph.F32, 16, 12), dst[:16], make([]byte, 16))
		}, []string{"rank 1 calls all_max #3", "rank 0 calls all_min #3"}},
		{"gathered part", func(g jaccl.Group, dst []byte) error {
			return g.AllGatherV(background(), at("all_gather_v", 3, graph.U8, 0, 5), [][]byte{dst[:2], dst[2:5], dst[5:9]}, make([]byte, 3))
		}, func(g jaccl.Group, dst []byte) error {
			return g.AllGatherV(background(), at("all_gather_v", 3, graph.U8, 0, 5), [][]byte{dst[:2], dst[2:6], dst[6:10]}, make([]byte, []int{2, 4, 4}[g.Rank()]))
		}, []string{"rank 1 sends 3 bytes to rank 0, which expects 4 from it, in all_gather_v #3"}},
		{"root", func(g jaccl.Group, dst []byte) error {
			return g.Broadcast(background(), at("broadcast", 3, graph.U8, 0, 5), 1, make([]byte, 8))
		}, func(g jaccl.Group, dst []byte) error {
			return g.Broadcast(background(), at("broadcast", 3, graph.U8, 0, 5), 2, dst[:8])
		}, []string{"rank 1 calls broadcast #3", "rank 1 as root", "rank 0 has rank 2"}},
		{"broadcast length", func(g jaccl.Group, dst []byte) error {
			return g.Broadcast(background(), at("broadcast", 3, graph.U8, 0, 5), 0, dst[:9])
		}, func(g jaccl.Group, dst []byte) error {
			return g.Broadcast(background(), at("broadcast", 3, graph.U8, 0, 5), 0, dst[:8])
		}, []string{"rank 1", "9 bytes", "rank 0", "8"}},
		{"split", func(g jaccl.Group, dst []byte) error {
			_, err := g.Split(background(), at("split", 4, graph.NoDType, 0, 5), 0, 0)
			return err
		}, func(g jaccl.Group, dst []byte) error {
			_, err := g.Split(background(), at("split", 3, graph.NoDType, 0, 5), 0, 0)
			return err
		}, []string{"rank 1 calls split #4", "rank 0 calls split #3"}},
		{"long", func(g jaccl.Group, dst []byte) error {
			return g.AllSum(background(), at("all_sum", 3, graph.F32, 1<<20, 12), dst, make([]byte, len(dst)))
		}, func(g jaccl.Group, dst []byte) error {
			return g.AllSum(background(), at("all_sum", 3, graph.F32, 1<<20, 12), dst[:len(dst)-4], make([]byte, len(dst)-4))
		}, []string{"rank 1", "200000 bytes of src", "rank 0 has 199996"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			comms := s.start(t, 3)
			dsts := make([][]byte, 3)
			errs := Each(comms, func(c jaccl.Communicator) error {
				g, err := c.Among(world(3))
				if err != nil {
					return err
				}
				var around []byte
				dsts[c.Rank()], around = buffer(200000, 0)
				dst := around[margin:][:200000]
				switch {
				case c.Rank() == 1:
					return tc.odd(g, dst)
				case tc.rest != nil:
					return tc.rest(g, dst)
				}
				return sum(background(), g, base, 16, dst)
			})
			expect(t, errs, tc.want...)
			for rank, dst := range dsts {
				for i, b := range dst {
					if b != canary {
						t.Fatalf("rank %d: byte %d of dst was written before the error", rank, i)
					}
				}
			}
			poisoned(t, comms, tc.want...)
		})
	}
}

// pairMismatch: two members of three call pairwise operations that do not fit together.
func (s suite) pairMismatch(t *testing.T) {
	at := func(op string, seq int) collective.Call {
		return collective.Call{Op: op, Seq: seq, DType: graph.F32, Bytes: 8, Pos: graph.Pos{File: "moe.go", Line: 7}}
	}
	one, two := make([]byte, 8), make([]byte, 8)
	cases := []struct {
		name string
		zero func(g jaccl.Group) error
		one  func(g jaccl.Group) error
		want []string
	}{
		{"both send",
			func(g jaccl.Group) error { return g.Send(background(), at("send", 1), 1, one) },
			func(g jaccl.Group) error { return g.Send(background(), at("send", 1), 0, two) },
			[]string{"rank 1 calls send #1", "rank 0 calls send #1"}},
		{"both receive",
			func(g jaccl.Group) error { return g.Recv(background(), at("recv", 1), 1, one) },
			func(g jaccl.Group) error { return g.Recv(background(), at("recv", 1), 0, two) },
			[]string{"rank 1 calls recv #1", "rank 0 calls recv #1"}},
		{"number",
			func(g jaccl.Group) error { return g.Send(background(), at("send", 1), 1, one) },
			func(g jaccl.Group) error { return g.Recv(background(), at("recv", 2), 0, two) },
			[]string{"rank 1 calls recv #2", "rank 0 calls send #1"}},
		{"length",
			func(g jaccl.Group) error { return g.Send(background(), at("send", 1), 1, one) },
			func(g jaccl.Group) error { return g.Recv(background(), at("recv", 1), 0, two[:5]) },
			[]string{"rank 0 sends 8 bytes to rank 1, which expects 5 from it, in send #1"}},
		{"send and exchange",
			func(g jaccl.Group) error { return g.Send(background(), at("send", 1), 1, one) },
			func(g jaccl.Group) error {
				return g.SendRecv(background(), at("send_recv", 1), 0, make([]byte, 8), 0, two)
			},
			[]string{"rank 1 calls send_recv #1", "rank 0 calls send #1"}},
		{"exchange length",
			func(g jaccl.Group) error {
				return g.SendRecv(background(), at("send_recv", 1), 1, make([]byte, 4), 1, one)
			},
			func(g jaccl.Group) error {
				return g.SendRecv(background(), at("send_recv", 1), 0, make([]byte, 8), 0, two)
			},
			[]string{"rank 0 sends 4 bytes to rank 1, which expects 8 from it, in send_recv #1"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			comms := s.start(t, 3)
			errs := Each(comms[:2], func(c jaccl.Communicator) error {
				if c.Rank() == 0 {
					return tc.zero(c.World())
				}
				return tc.one(c.World())
			})
			expect(t, errs, tc.want...)
			for i, b := range append(slices.Clone(one), two...) {
				if b != 0 {
					t.Errorf("byte %d was written before the error", i)
				}
			}
			poisoned(t, comms, tc.want...)
		})
	}
}

// badArguments: invalid arguments on one rank are an error there at once, without waiting
// for the others, and then an error on all ranks.
func (s suite) badArguments(t *testing.T) {
	call := func(op string, d graph.DType) collective.Call {
		return collective.Call{Op: op, DType: d, Pos: graph.Pos{File: "moe.go", Line: 8}}
	}
	shared := make([]byte, 64)
	cases := map[string]func(g jaccl.Group) error{
		"sum lengths": func(g jaccl.Group) error {
			return g.AllSum(background(), call("all_sum", graph.F32), make([]byte, 4), make([]byte, 8))
		},
		"sum of bool": func(g jaccl.Group) error {
			return g.AllSum(background(), call("all_sum", graph.Bool), make([]byte, 8), make([]byte, 8))
		},
		"sum of 8-bit floats": func(g jaccl.Group) error {
			return g.AllSum(background(), call("all_sum", graph.F8_E4M3), make([]byte, 8), make([]byte, 8))
		},
		"sum of no type": func(g jaccl.Group) error {
			return g.AllSum(background(), call("all_sum", graph.NoDType), nil, nil)
		},
		"half an element": func(g jaccl.Group) error {
			return g.AllSum(background(), call("all_sum", graph.F32), make([]byte, 6), make([]byte, 6))
		},
		"half an element, scattered": func(g jaccl.Group) error {
			return g.ReduceScatter(background(), call("reduce_scatter", graph.F32), make([]byte, 6), make([]byte, 12))
		},
		"gather lengths": func(g jaccl.Group) error {
			return g.AllGather(background(), call("all_gather", graph.F32), make([]byte, 12), make([]byte, 4))
		},
		"scatter lengths": func(g jaccl.Group) error {
			return g.ReduceScatter(background(), call("reduce_scatter", graph.F32), make([]byte, 4), make([]byte, 12))
		},
		"scatter of bool": func(g jaccl.Group) error {
			return g.ReduceScatter(background(), call("reduce_scatter", graph.Bool), make([]byte, 4), make([]byte, 8))
		},
		"too few parts": func(g jaccl.Group) error {
			return g.AllToAll(background(), call("all_to_all", graph.F32), make([][]byte, 1), make([][]byte, 2))
		},
		"too many parts": func(g jaccl.Group) error {
			return g.AllToAll(background(), call("all_to_all", graph.F32), make([][]byte, 2), make([][]byte, 3))
		},
		"other name": func(g jaccl.Group) error {
			return g.AllSum(background(), call("all_gather", graph.F32), nil, nil)
		},
		"shifted in place": func(g jaccl.Group) error {
			return g.AllSum(background(), call("all_sum", graph.F32), shared[4:20], shared[:16])
		},
		"gather in place": func(g jaccl.Group) error {
			return g.AllGather(background(), call("all_gather", graph.F32), shared[:32], shared[:16])
		},
		"scatter in place": func(g jaccl.Group) error {
			return g.ReduceScatter(background(), call("reduce_scatter", graph.F32), shared[:16], shared[:32])
		},
		"gathered parts": func(g jaccl.Group) error {
			return g.AllGatherV(background(), call("all_gather_v", graph.F32), [][]byte{nil, make([]byte, 4)}, make([]byte, 8))
		},
		"too few gathered parts": func(g jaccl.Group) error {
			return g.AllGatherV(background(), call("all_gather_v", graph.F32), [][]byte{nil}, nil)
		},
		"gathered parts in place": func(g jaccl.Group) error {
			return g.AllGatherV(background(), call("all_gather_v", graph.F32), [][]byte{shared[:8], shared[8:16]}, shared[4:12])
		},
		"max of bool": func(g jaccl.Group) error {
			return g.AllMax(background(), call("all_max", graph.Bool), make([]byte, 8), make([]byte, 8))
		},
		"min lengths": func(g jaccl.Group) error {
			return g.AllMin(background(), call("all_min", graph.F32), make([]byte, 4), make([]byte, 8))
		},
		"no such root": func(g jaccl.Group) error {
			return g.Broadcast(background(), call("broadcast", graph.F32), 2, nil)
		},
		"negative root": func(g jaccl.Group) error {
			return g.Broadcast(background(), call("broadcast", graph.F32), -1, nil)
		},
		"send to itself": func(g jaccl.Group) error {
			return g.Send(background(), call("send", graph.F32), 1, nil)
		},
		"send to nobody": func(g jaccl.Group) error {
			return g.Send(background(), call("send", graph.F32), 2, nil)
		},
		"receive from nobody": func(g jaccl.Group) error {
			return g.Recv(background(), call("recv", graph.F32), -1, nil)
		},
		"receive from itself": func(g jaccl.Group) error {
			return g.Recv(background(), call("recv", graph.F32), 1, nil)
		},
		"half to itself": func(g jaccl.Group) error {
			return g.SendRecv(background(), call("send_recv", graph.F32), 1, nil, 0, nil)
		},
		"exchange with nobody": func(g jaccl.Group) error {
			return g.SendRecv(background(), call("send_recv", graph.F32), 0, nil, 2, nil)
		},
		"exchange in place": func(g jaccl.Group) error {
			return g.SendRecv(background(), call("send_recv", graph.F32), 0, shared[:8], 0, shared[4:12])
		},
		"lengths to itself": func(g jaccl.Group) error {
			return g.SendRecv(background(), call("send_recv", graph.F32), 1, shared[:8], 1, shared[8:12])
		},
		"other name of a split": func(g jaccl.Group) error {
			_, err := g.Split(background(), call("barrier", graph.F32), 0, 0)
			return err
		},
		"parts in place": func(g jaccl.Group) error {
			return g.AllToAll(background(), call("all_to_all", graph.F32), [][]byte{shared[:8], shared[8:16]}, [][]byte{shared[12:20], shared[20:28]})
		},
	}
	for name, bad := range cases {
		t.Run(name, func(t *testing.T) {
			comms := s.start(t, 2)
			var groups []jaccl.Group
			for _, c := range comms {
				g, err := c.Among(world(2))
				require.NoError(t, err)
				groups = append(groups, g)
			}
			err := bad(groups[1]) // before rank 0 has called anything
			expect(t, []error{groups[0].Barrier(background(), call("barrier", graph.NoDType)), err}, "rank 1 calls", "moe.go:8")
		})
	}
}

// fail: members that wait, members that come later and other groups learn the cause and
// the failed rank.
func (s suite) fail(t *testing.T) {
	comms := s.start(t, 4)
	errs := Each(comms, func(c jaccl.Communicator) error {
		if c.Rank() == 2 {
			c.Fail(errSeeded)
			c.Fail(errors.New("a second failure, which is of no interest"))
		}
		ranks := []int{0, 2}
		if c.Rank()%2 == 1 {
			ranks = []int{3, 1, 2} // rank 2 never arrives
		}
		return play(c, ranks, trials(len(ranks), []op{{name: "barrier"}}))
	})
	expect(t, errs, "rank 2 failed", errSeeded.Error())
	if !errors.Is(errs[2], errSeeded) {
		t.Errorf("rank 2: %v does not wrap the cause that it gave", errs[2])
	}
	for rank, err := range errs {
		if err != nil && strings.Contains(err.Error(), "second") {
			t.Errorf("rank %d: %v, want the first failure", rank, err)
		}
	}
	poisoned(t, comms, "rank 2 failed", errSeeded.Error())
}

// cancel: when its context ends, a member returns, and the others learn which rank left.
// The context ends before the member's call, or while the member waits.
func (s suite) cancel(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before=%v", before), func(t *testing.T) {
			comms := s.start(t, 3)
			ctx, cancel := context.WithCancelCause(background())
			defer cancel(nil)
			errs := Each(comms, func(c jaccl.Communicator) error {
				g, err := c.Among(world(3))
				if err != nil {
					return err
				}
				call := collective.Call{Op: "barrier", Seq: 5, Pos: graph.Pos{File: "moe.go", Line: 3}}
				switch c.Rank() {
				case 0:
					return g.Barrier(background(), call)
				case 1:
					if before {
						cancel(errSeeded)
					}
					return g.Barrier(ctx, call)
				}
				if !before {
					cancel(errSeeded)
				}
				if own, err := c.Group([]int{2}); err != nil { // rank 2 never arrives
					return err
				} else {
					for err == nil {
						err = own.Barrier(background(), call)
					}
					return err
				}
			})
			expect(t, errs, "rank 1 left barrier #5", "moe.go:3", errSeeded.Error())
			if !errors.Is(errs[1], errSeeded) {
				t.Errorf("rank 1: %v does not wrap the cause of its context", errs[1])
			}
			poisoned(t, comms, "rank 1 left barrier #5")
		})
	}
}

// close: members waiting for a closed rank, now or later, get an error, and so does the
// closed rank itself.
func (s suite) close(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before=%v", before), func(t *testing.T) {
			comms := s.start(t, 3)
			groups := make([]jaccl.Group, len(comms))
			for i, c := range comms {
				var err error
				groups[i], err = c.Among(world(3))
				require.NoError(t, err)
			}
			if before {
				require.NoError(t, comms[1].Close())
			}
			errs := Each(comms, func(c jaccl.Communicator) error {
				if c.Rank() == 1 && !before {
					if err := c.Close(); err != nil {
						return err
					}
				}
				return groups[c.Rank()].Barrier(background(), collective.Call{Op: "barrier"})
			})
			expect(t, errs, "rank 1 has closed")
			if g, err := comms[1].Group([]int{1}); err == nil {
				t.Errorf("a closed communicator returned the group %v", g)
			}
		})
	}
}

// closeElsewhere: a rank that is done may close while others go on without it.
func (s suite) closeElsewhere(t *testing.T) {
	comms := s.start(t, 4)
	all(t, comms, func(c jaccl.Communicator) error {
		if err := play(c, world(4), trials(4, alternating(10))); err != nil {
			return err
		}
		if c.Rank() == 0 {
			return c.Close()
		}
		return play(c, []int{1, 2, 3}, trials(3, alternating(100)))
	})
	require.False(t, t.Failed())
}
