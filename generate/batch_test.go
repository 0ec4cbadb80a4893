package generate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/sharding"
)

// requests returns requests of many kinds: prompts of 1 to 50 tokens, some of which begin alike, greedy and sampled.
func requests() []Request {
	r := rand.New(rand.NewPCG(1, 1))
	var all []Request
	var before []int32
	for i, n := range []int{5, 1, 50, 9, 33, 2, 40, 7, 17, 41} {
		prompt := append([]int32{}, before[:min(len(before), n-1, 20*(i%3))]...)
		for len(prompt) < n {
			prompt = append(prompt, r.Int32N(40))
		}
		q := Request{Prompt: prompt, N: 6 + 5*(i%4), Top: i % 3}
		if i%2 == 1 {
			q.Sampling = Sampling{Temperature: 1.3, TopK: 20, Repetition: 1.1, Seed: uint64(i)}
		}
		all, before = append(all, q), prompt
	}
	return all
}

// A sequence's tokens, and their probabilities, are the same bits whatever else is generated at the time, on every
// mesh without tp.
func TestBatch(t *testing.T) {
	for name, meshes := range map[string][]string{"olmoe": {"", "ep=3"}, "mixtral": {"ep=2"}, "qwen3_moe": {""}, "deepseek_v3": {"ep=2"}, "gpt_oss": {""}} {
		alone := open(t, name, Options{Room: 80})
		var want []string
		for _, r := range requests() {
			var tokens []Token
			_, err := alone.Generate(context.Background(), r, func(x Token) bool {
				tokens = append(tokens, x)
				return true
			})
			require.NoError(t, err)
			require.Len(t, tokens, r.N)
			require.Len(t, tokens[0].Top, r.Top)
			want = append(want, fmt.Sprint(tokens))
		}
		for _, mesh := range meshes {
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			g := open(t, name, Options{Room: 80, Sequences: 4, Config: gomoe.Config{Mesh: m}})
			var wait sync.WaitGroup
			for i, r := range requests() {
				wait.Go(func() {
					var tokens []Token
					if _, err := g.Generate(context.Background(), r, func(x Token) bool {
						tokens = append(tokens, x)
						return true
					}); err != nil {
						t.Error(err)
					}
					if got := fmt.Sprint(tokens); got != want[i] {
						t.Errorf("%s on mesh %q: request %d in a batch:\n%s\nalone:\n%s", name, mesh, i, got, want[i])
					}
				})
			}
			wait.Wait()
			s := g.Stats()
			require.Equal(t, len(want), s.Requests)
			n := 0
			for _, r := range requests() {
				n += len(r.Prompt)
			}
			require.Equal(t, n, s.Prompt+s.Reused)
			require.Less(t, s.Steps, s.Prompt+s.Generated, "sequences share steps")
		}
	}
}

// The beginning of a prompt that a running sequence has in its caches is copied from there, for all types of caches.
func TestCopies(t *testing.T) {
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		g := open(t, "olmoe", Options{Room: 90, Sequences: 2, Cache: d})
		prompt, _ := expected(t, "olmoe")
		prompt = append(prompt, 1, 2, 3, 4, 5, 6, 7)
		first, _ := generate(t, g, Request{Prompt: prompt, N: 30})
		again, result := generate(t, g, Request{Prompt: append(append([]int32{}, prompt...), 9), N: 3})
		require.Equal(t, len(prompt), result.Reused)
		// The first slot still has all of the first text.
		whole := append(append([]int32{}, prompt...), first...)
		_, result = generate(t, g, Request{Prompt: append(whole, 3), N: 1})
		require.Equal(t, len(whole)-1, result.Reused, "the last token was never computed")

		alone := open(t, "olmoe", Options{Room: 90, Cache: d})
		want, _ := generate(t, alone, Request{Prompt: append(append([]int32{}, prompt...), 9), N: 3})
		require.Equal(t, want, again)
	}
}

// A text that slides goes on as if the tokens that were dropped had never been there.
func TestSlide(t *testing.T) {
	const room = 20
	for _, keep := range []int{0, 3, room - 2} {
		g := open(t, "mixtral", Options{Room: room, Sequences: 2})
		fresh := open(t, "mixtral", Options{Room: room})
		prompt, _ := expected(t, "mixtral")
		for _, prompt := range [][]int32{prompt, append(append(append([]int32{}, prompt...), make([]int32, 40)...), prompt...)} {
			ids := append([]int32{}, prompt...)
			dropped := 0
			_, err := g.Generate(context.Background(), Request{Prompt: prompt, N: 50, Slide: true, Keep: keep}, func(x Token) bool {
				for len(ids)-dropped > room {
					dropped += (room - keep) / 2
				}
				window := append(append([]int32{}, ids[:min(keep, len(ids))]...), ids[min(keep+dropped, len(ids)):]...)
				want, _ := generate(t, fresh, Request{Prompt: window, N: 1})
				if want[0] != x.ID {
					t.Errorf("keep %d: token %d is %d, want %d", keep, len(ids), x.ID, want[0])
				}
				ids = append(ids, x.ID)
				return true
			})
			require.NoError(t, err)
			require.Len(t, ids, len(prompt)+50)
		}
	}
	// Without Slide the room ends the text.
	g := open(t, "mixtral", Options{Room: room})
	ids, result := generate(t, g, Request{Prompt: []int32{1, 2, 3}})
	require.Len(t, ids, room-3+1)
	require.Equal(t, Length, result.Finish)
}

// A request ends alone: by its context, and by emit. One that the queue has no place for is refused.
func TestLeaves(t *testing.T) {
	g := open(t, "olmoe", Options{Room: 30, Sequences: 1, Queue: 1})
	endless := Request{Prompt: []int32{1, 2, 3}, N: 1 << 30, Slide: true}
	ctx, cancel := context.WithCancel(context.Background())
	began, ended := make(chan bool, 1), make(chan error)
	go func() {
		_, err := g.Generate(ctx, endless, func(Token) bool {
			select {
			case began <- true:
			default:
			}
			return true
		})
		ended <- err
	}()
	<-began
	ctx2, cancel2 := context.WithCancel(context.Background())
	waits := make(chan error)
	go func() {
		_, err := g.Generate(ctx2, endless, all)
		waits <- err
	}()
	for g.Stats().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	_, err := g.Generate(context.Background(), endless, all)
	require.ErrorIs(t, err, ErrBusy)
	cancel2()
	require.ErrorIs(t, <-waits, context.Canceled)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	n := 0
	result, err := g.Generate(context.Background(), endless, func(Token) bool { n++; return n < 7 })
	require.NoError(t, err)
	require.Equal(t, 7, n)
	require.Equal(t, 7, result.Tokens)
	require.Equal(t, Stopped, result.Finish)
	require.Zero(t, g.Stats().Waiting)
}

// Tokens that nobody takes stop their sequence, and no other.
func TestAhead(t *testing.T) {
	g := open(t, "olmoe", Options{Room: 30, Sequences: 2})
	stalled, release := make(chan bool, 1), make(chan bool)
	ended := make(chan int)
	go func() {
		n := 0
		_, err := g.Generate(context.Background(), Request{Prompt: []int32{1, 2, 3}, N: 3 * ahead, Slide: true}, func(Token) bool {
			if n++; n == 1 {
				stalled <- true
				<-release
			}
			return true
		})
		if err != nil {
			t.Error(err)
		}
		ended <- n
	}()
	<-stalled
	generate(t, g, Request{Prompt: []int32{4, 5}, N: 2 * ahead, Slide: true})
	if n := g.Stats().Generated; n > 2*ahead+2*ahead {
		t.Errorf("%d tokens were computed, and a sequence whose tokens nobody takes has at most %d", n, 2*ahead)
	}
	release <- true
	require.Equal(t, 3*ahead, <-ended)
}

// Requests that wait or run when the Generator is closed get an error, and so do those that come later.
func TestClose(t *testing.T) {
	c, err := checkpoint.Open("../models/testdata/olmoe")
	require.NoError(t, err)
	m, err := models.Open(c)
	require.NoError(t, err)
	g, err := Open(t.Context(), m, c, Options{Room: 30})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	errs := make(chan error)
	for range 3 {
		go func() {
			_, err := g.Generate(context.Background(), Request{Prompt: []int32{1}, N: 1 << 30, Slide: true}, all)
			errs <- err
		}()
	}
	for s := g.Stats(); s.Running+s.Waiting < 3; s = g.Stats() {
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, g.Close())
	for range 3 {
		require.ErrorIs(t, <-errs, ErrClosed)
	}
	_, err = g.Generate(context.Background(), Request{Prompt: []int32{1}, N: 1}, all)
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, g.Close())
}

// After a step that fails, all requests fail with its error.
func TestStepFails(t *testing.T) {
	g := open(t, "olmoe", Options{Room: 30})
	delete(g.in, "lm_head.weight")
	_, err := g.Generate(context.Background(), Request{Prompt: []int32{1}, N: 1}, all)
	if err == nil || !strings.Contains(err.Error(), "lm_head.weight") {
		t.Fatalf("error %v", err)
	}
	<-g.Failed()
	_, again := g.Generate(context.Background(), Request{Prompt: []int32{1}, N: 1}, all)
	require.Equal(t, err, again)
	require.Equal(t, err, g.Err())
}
