package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/serve"
	"github.com/gomoe/gomoe/tokenizer"
)

func (t *tool) serveCommand() *ffcli.Command {
	fs := t.flags("serve")
	s := serving{opening: opening{tool: t}}
	fs.StringVar(&s.listen, "listen", "127.0.0.1:8080", "`address` and port to listen at; port 0 is any that is free")
	fs.StringVar(&s.c.Name, "name", "", "`name` of the model for clients; that of its folder or file if not given")
	fs.Func("host", "`name` by which clients reach the server, such as that of a proxy; IP addresses, localhost and this machine's names need none; repeatable", func(name string) error {
		s.c.Hosts = append(s.c.Hosts, name)
		return serve.CheckHosts(s.c.Hosts)
	})
	fs.StringVar(&s.keyFile, "api-key-file", "", "`file` whose first line clients have to give as their API key; none is asked for if not given")
	fs.IntVar(&s.o.Sequences, "sequences", 4, "texts that are generated at once")
	fs.IntVar(&s.o.Room, "room", 0, fmt.Sprintf("`positions` of each text; as many as the model takes, and %d at most, if 0", usualRoom))
	fs.IntVar(&s.o.Queue, "queue", 64, "texts that may wait for a place; requests beyond them are refused")
	fs.Int64Var(&s.c.Body, "max-body", 8<<20, "longest body of a request in `bytes`")
	fs.IntVar(&s.c.Tokens, "max-tokens", 0, "`tokens` that a request with slide may have generated for each text; 16 times -room if 0")
	fs.DurationVar(&s.c.Grace, "grace", 4*time.Second, "`time` that requests have to end when the server is to stop")
	s.flags(fs)
	return &ffcli.Command{
		Name: "serve", ShortUsage: "gomoe serve MODEL [-listen 127.0.0.1:8080] [-mesh ep=2]", FlagSet: fs,
		ShortHelp: "Answer requests over HTTP with a model, as OpenAI's interface has them.",
		LongHelp: "MODEL is a folder with safetensors files, config.json and tokenizer.json, or a GGUF file. There are /v1/completions,\n" +
			"/v1/chat/completions, /v1/models, /health and /metrics. SIGTERM and Ctrl-C end it when the requests have been answered\n" +
			"that it has, a second one at once. Under gomoe launch and others all ranks take part, and the first one listens.",
		Exec: func(ctx context.Context, args []string) error {
			if err := s.operand(fs, args); err != nil {
				return err
			}
			return s.run(ctx, fs)
		},
	}
}

// serving holds the flags of gomoe serve.
type serving struct {
	opening
	listen, keyFile string
	c               serve.Config
}

func (s *serving) run(ctx context.Context, fs *flag.FlagSet) (err error) {
	_, port, wrongListen := net.SplitHostPort(s.listen)
	if wrongListen == nil {
		_, wrongListen = net.DefaultResolver.LookupPort(ctx, "tcp", port)
	}
	switch {
	case wrongListen != nil:
		return usagef("-listen %s: want an address and a port, such as 127.0.0.1:8080, or :8080 for all addresses of this machine", s.listen)
	case s.o.Sequences < 1:
		return usagef("-sequences %d: want at least 1", s.o.Sequences)
	case s.o.Queue < 1:
		return usagef("-queue %d: want at least 1", s.o.Queue)
	case s.c.Body < 1:
		return usagef("-max-body %d: want at least 1", s.c.Body)
	case s.c.Tokens < 0:
		return usagef("-max-tokens %d: want at least 1, or 0 for 16 times -room", s.c.Tokens)
	case s.c.Grace <= 0:
		return usagef("-grace %v: want a time above 0", s.c.Grace)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.setRoom(); err != nil {
		return err
	}
	same := map[string]string{"-room": fmt.Sprint(s.o.Room)}
	for _, name := range []string{"mesh", "order", "sequences", "cache", "deadline"} {
		if f := fs.Lookup(name); name != "cache" {
			same["-"+name] = f.Value.String()
		}
	}
	same["-cache"] = s.o.Cache.String()
	if err := s.w.Same(ctx, same); err != nil {
		return err
	}
	// The first rank listens before any rank loads the model.
	var listener net.Listener
	var wrong error
	if !s.follows {
		if s.c.Key, wrong = readKey(ctx, s.keyFile); wrong == nil {
			listener, wrong = net.Listen("tcp", s.listen)
		}
	}
	if failed, err := s.w.Any(ctx, wrong != nil); err != nil || failed {
		return errors.Join(wrong, err)
	}
	if listener != nil {
		defer listener.Close() // Serve closes it, too
	}
	gen, err := generate.Open(ctx, s.model, s.opening.c, s.o)
	// The first rank serves when all have opened the model: a rank that still compiles cannot end in order. No signal ends
	// the agreement, which the first rank may already have: a rank told to end while it opens the model says so in it.
	failed, wrong := s.w.Any(context.WithoutCancel(ctx), err != nil)
	if failed && err == nil && wrong == nil {
		wrong = errors.New("another rank could not open the model, and says why")
	}
	if err != nil || wrong != nil {
		if gen != nil {
			wrong = errors.Join(wrong, gen.Close())
		}
		return errors.Join(err, wrong)
	}
	defer func() { err = errors.Join(err, gen.Close()) }()
	if s.follows {
		return gen.Follow(context.WithoutCancel(ctx), ctx) // the first process ends the loop
	}
	if s.c.Name == "" {
		if s.c.Name, err = modelName(s.path); err != nil {
			return err
		}
	}
	s.c.Tokenizer, s.c.Ends = s.tok, s.ends
	server, err := serve.New(gen, s.c)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintln(s.stderr, roomText(gen))
	if a, ok := listener.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && s.c.Key == "" {
		fmt.Fprintf(s.stderr, "everybody who reaches %s can use the model: there is no -api-key-file\n", a)
	}
	if err := s.tok.TemplateError(); err != nil && !errors.Is(err, tokenizer.ErrNoTemplate) {
		fmt.Fprintf(s.stderr, "conversations are refused: %v\n", err)
	}
	fmt.Fprintf(s.stderr, "serving %s at http://%s\n", s.c.Name, listener.Addr())
	ctx = gen.Until(ctx)
	err = server.Serve(ctx, listener)
	if stop := (*generate.StopError)(nil); errors.As(context.Cause(ctx), &stop) {
		fmt.Fprintf(s.stderr, "gomoe serve: %v, and so all ranks end\n", stop)
	}
	return err
}

// modelName returns the name of a model's folder, or of its file without .gguf.
func modelName(path string) (string, error) {
	path, err := filepath.Abs(path)
	return strings.TrimSuffix(filepath.Base(path), ".gguf"), err
}

// maxKey is the largest file holding a key, in bytes.
const maxKey = 64 << 10

// readKey returns the first line of a file, "" if there is none.
func readKey(ctx context.Context, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := infile.ReadAny(ctx, path, maxKey)
	if err != nil {
		return "", fmt.Errorf("-api-key-file: %w", err)
	}
	key, _, _ := strings.Cut(strings.TrimPrefix(string(text), "\ufeff"), "\n")
	if key = strings.TrimSpace(key); key == "" {
		return "", fmt.Errorf("-api-key-file %s: the first line is empty, want the key", path)
	}
	return key, nil
}
