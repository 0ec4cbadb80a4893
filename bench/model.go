package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"sync"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/serve"
)

// llm is a workload with a whole model: random weights with a published model's shapes in a GGUF file read by both
// sides.
type llm struct {
	shape  modelShape
	format blockFormat
	folder string // of the files
}

const (
	decodeTokens = 16  // generated per sequence and step
	promptTokens = 512 // of a prompt
	clients      = 8   // of a server, and sequences of a batch
	fewClients   = 4   // sequences of a smaller batch
	llmRoom      = promptTokens + decodeTokens
	checkTokens  = 8  // length of the prompt used for comparing results
	checkTop     = 20 // number of most likely tokens to compare probabilities of
)

// llmWorkloads returns the workloads with models, storing the files in folder. The models have fewer layers than the
// published ones, which keeps the files small and increases the share of the embedding table and of the head.
func llmWorkloads(folder string, olmoeLayers, qwenLayers int) []workload {
	var ws []workload
	add := func(m modelShape, f blockFormat, targets map[string]float64) {
		l := llm{m, f, folder}
		for _, k := range []struct {
			name, title   string
			tokens, reads int // tokens of a step, and the number of times it reads the weights
			each          int // tokens per reading of the weights
			open          func(int) (*subject, error)
		}{
			{"decode", "decode, 1 sequence", decodeTokens, decodeTokens, 1, func(n int) (*subject, error) { return l.decode(n, 1) }},
			{"decode4", fmt.Sprintf("decode, %d sequences", fewClients), fewClients * decodeTokens, decodeTokens, fewClients, func(n int) (*subject, error) { return l.decode(n, fewClients) }},
			{"decode8", "decode, 8 sequences", clients * decodeTokens, decodeTokens, clients, func(n int) (*subject, error) { return l.decode(n, clients) }},
			{"prompt", fmt.Sprintf("prompt of %d tokens", promptTokens), promptTokens, 0, 0, l.prompt},
			{"serve", fmt.Sprintf("server, %d clients", clients), clients * decodeTokens, 0, 0, l.serve},
			{"open", "opening until the first token", 1, 0, 0, l.opening},
		} {
			target, ok := targets[k.name]
			if !ok {
				continue
			}
			w := workload{
				name:  fmt.Sprintf("llm/%s/%s/%s", m.Architecture, f.name, k.name),
				title: fmt.Sprintf("%s's shapes, %d layers, %s, %s", m.Name, m.Layers, f.name, k.title),
				peer:  "llm_" + k.name, tokens: k.tokens, tolerance: 0.1, target: target,
				threads: []int{2}, peers: []string{llamaName}, open: k.open,
				params: map[string]any{"tokens": decodeTokens, "prompt": promptTokens, "clients": clients, "vocab": m.Vocab, "room": llmRoom},
			}
			if k.name != "serve" { // ik_llama.cpp's server is part of the other package
				w.peers = append(w.peers, ikLlamaName)
			}
			if k.name == "prompt" {
				w.flop = 2 * m.products(promptTokens)
			}
			if k.reads > 0 {
				w.peers = append(w.peers, memoryName)
				w.params["reads"], w.params["bytes"] = k.reads, m.reads(f, k.each)
			}
			ws = append(ws, w)
		}
	}
	add(olmoe(olmoeLayers), q4K(), map[string]float64{"decode": 1 / 1.5, "decode4": 1 / 1.5, "decode8": 1 / 1.5, "prompt": 0.5, "serve": 1})
	add(olmoe(olmoeLayers), q80(), map[string]float64{"decode": 1 / 1.5, "decode4": 1 / 1.5, "decode8": 1 / 1.5, "prompt": 0.5})
	add(olmoe(olmoeLayers), brain(), map[string]float64{"decode": 1, "decode4": 1, "decode8": 1, "prompt": 1})
	add(qwen3(qwenLayers), q4K(), map[string]float64{"decode": 1 / 1.3, "prompt": 1 / 1.3, "open": 1})
	return ws
}

// opened is an open model with its generator.
type opened struct {
	c *checkpoint.Checkpoint
	g *generate.Generator
}

func (o *opened) Close() error {
	var err error
	if o.g != nil {
		err = o.g.Close()
	}
	if o.c != nil {
		err = errors.Join(err, o.c.Close())
	}
	return err
}

// openModel opens a file for generating the given number of sequences at once.
func openModel(path string, sequences int) (o *opened, err error) {
	o = &opened{}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	if o.c, err = checkpoint.Open(path); err != nil {
		return o, err
	}
	m, err := models.Open(o.c)
	if err != nil {
		return o, err
	}
	o.g, err = generate.Open(context.Background(), m, o.c, generate.Options{Room: llmRoom, Sequences: sequences})
	return o, err
}

// subject writes the file, opens it, and returns a subject running step with it. Both sides continue the same few
// tokens, and compare the probabilities of the next token.
func (l llm) subject(threads, sequences int, step func(o *opened, random *rand.Rand) error) (s *subject, err error) {
	path, err := l.shape.write(l.folder, l.format)
	if err != nil {
		return nil, err
	}
	runtime.GOMAXPROCS(threads)
	o, err := openModel(path, sequences)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	random := rand.New(rand.NewPCG(1, 1))
	s = &subject{file: path, in: map[string]array.Array{}, want: map[string]array.Array{}, close: o.Close}
	prompt := l.randomTokens(random, checkTokens)
	var first generate.Token
	if _, err := o.g.Generate(context.Background(), generate.Request{Prompt: prompt, N: 1, Top: checkTop}, func(t generate.Token) bool { first = t; return true }); err != nil {
		return nil, err
	}
	ids, logs := make([]int32, checkTop), make([]float32, checkTop)
	for i, a := range first.Top {
		ids[i], logs[i] = a.ID, float32(a.LogProb)
	}
	for name, data := range map[string][]int32{"prompt": prompt, "ids": ids} {
		if s.in[name], err = array.Of(data, len(data)); err != nil {
			return nil, err
		}
	}
	if s.want["logs"], err = array.Of(logs, len(logs)); err != nil {
		return nil, err
	}
	s.step = func() error { return step(o, random) }
	return s, s.step()
}

// randomTokens returns n random tokens that are words.
func (l llm) randomTokens(random *rand.Rand, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = 300 + random.Int32N(int32(l.shape.Vocab-300))
	}
	return ids
}

// decode extends all sequences at once, starting from one token each. The tokens are drawn at random, so that they
// use different experts.
func (l llm) decode(threads, sequences int) (*subject, error) {
	return l.subject(threads, sequences, func(o *opened, random *rand.Rand) error {
		var requests []generate.Request
		for range sequences {
			requests = append(requests, generate.Request{Prompt: l.randomTokens(random, 1), N: decodeTokens, Sampling: generate.Sampling{Temperature: 1, Seed: random.Uint64()}})
		}
		return atOnce(sequences, func(i int) error { return complete(o.g, requests[i]) })
	})
}

// prompt computes the token following a prompt.
func (l llm) prompt(threads int) (*subject, error) {
	return l.subject(threads, 1, func(o *opened, random *rand.Rand) error {
		return complete(o.g, generate.Request{Prompt: l.randomTokens(random, promptTokens), N: 1})
	})
}

// atOnce calls do(0) to do(n-1) concurrently.
func atOnce(n int, do func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// complete generates, and checks the number of tokens.
func complete(g *generate.Generator, r generate.Request) error {
	result, err := g.Generate(context.Background(), r, func(generate.Token) bool { return true })
	if err == nil && result.Tokens != r.N {
		err = fmt.Errorf("bench: %d tokens, want %d", result.Tokens, r.N)
	}
	return err
}

// serve asks a server on this machine, using as many clients as the server has slots.
func (l llm) serve(threads int) (*subject, error) {
	var url string
	var stop context.CancelFunc
	ended := make(chan error, 1)
	s, err := l.subject(threads, clients, func(o *opened, random *rand.Rand) error {
		if url == "" {
			tok, err := generate.Tokenizer(o.c)
			if err != nil {
				return err
			}
			server, err := serve.New(o.g, serve.Config{Name: "bench", Tokenizer: tok})
			if err != nil {
				return err
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			var ctx context.Context
			ctx, stop = context.WithCancel(context.Background())
			go func() { ended <- server.Serve(ctx, listener) }()
			url = "http://" + listener.Addr().String() + "/v1/completions"
		}
		var bodies []string
		for range clients {
			bodies = append(bodies, fmt.Sprintf(`{"model":"bench","prompt":"w%d","max_tokens":%d,"temperature":1,"seed":%d}`, 300+random.IntN(20000), decodeTokens, random.Int32()))
		}
		return atOnce(clients, func(i int) error { return ask(url, bodies[i]) })
	})
	if err != nil {
		return nil, err
	}
	closeModel := s.close
	s.close = func() error {
		stop()
		err := <-ended
		return errors.Join(err, closeModel())
	}
	return s, nil
}

// ask posts a completion.
func ask(url, body string) error {
	resp, err := http.Post(url, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Usage struct {
			Tokens int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("bench: the server answers %s: %.200s", resp.Status, text)
	}
	if answer.Usage.Tokens != decodeTokens {
		return fmt.Errorf("bench: the server wrote %d tokens, want %d", answer.Usage.Tokens, decodeTokens)
	}
	return nil
}
