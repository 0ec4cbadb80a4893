package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/term"

	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/tokenizer"
)

func (t *tool) chatCommand() *ffcli.Command {
	fs := t.flags("chat")
	c := chatting{opening: opening{tool: t}}
	fs.StringVar(&c.system, "system", "", "`text` of the message that begins the conversation and says how to answer")
	fs.IntVar(&c.n, "n", 0, "maximum number of tokens of an answer; 0 uses the remaining context")
	fs.IntVar(&c.o.Room, "room", 0, fmt.Sprintf("context length in `positions`; the model's own, but at most %d, if 0", usualRoom))
	c.choosing.flags(fs)
	c.opening.flags(fs)
	fs.BoolVar(&c.stats, "stats", false, "print times and speeds to standard error")
	return &ffcli.Command{
		Name: "chat", ShortUsage: "gomoe chat MODEL [-system TEXT]", FlagSet: fs,
		ShortHelp: "Talk to a model.",
		LongHelp: "Every line of standard input is a message, and the model's answer is printed as it is generated. The conversation\n" +
			"ends with the input (Ctrl-D). A line /new begins another one. MODEL is a folder with safetensors files, config.json,\n" +
			"tokenizer.json and a chat template, or a GGUF file.",
		Exec: func(ctx context.Context, args []string) error {
			if err := c.operand(fs, args); err != nil {
				return err
			}
			return c.run(ctx)
		},
	}
}

// chatting holds the flags and the state of gomoe chat.
type chatting struct {
	opening
	choosing
	system string
	n      int
	stats  bool

	messages []tokenizer.Message
	asks     bool // prompts a person for each message
}

// newConversation is the input line starting another conversation.
const newConversation = "/new"

func (c *chatting) run(ctx context.Context) (err error) {
	if err := c.choosing.check(); err != nil {
		return err
	}
	if c.n < 0 {
		return usagef("-n %d: want at least 1, or 0 for as many as there is room for", c.n)
	}
	job, err := environ.Detect(os.Getenv)
	if err != nil {
		return err
	}
	if job.Size > 1 {
		return usagef("processes of a launcher have no standard input; give -mesh without a launcher, or use gomoe serve")
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.open(ctx); err != nil {
		return err
	}
	if err := c.setRoom(); err != nil {
		return err
	}
	c.begin()
	if err := c.tok.TemplateError(); errors.Is(err, tokenizer.ErrNoTemplate) {
		return fmt.Errorf("%s: the model has no chat template, which turns messages into text: use gomoe generate, or put a file chat_template.jinja next to the tokenizer", c.path)
	} else if err != nil {
		return err
	}
	if _, err := c.tokens(append(c.messages, tokenizer.Message{Role: "user", Content: "?"})); err != nil {
		return err
	}
	gen, err := generate.Open(ctx, c.model, c.opening.c, c.o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gen.Close()) }()
	if c.stats || isTerminal(c.stderr) {
		fmt.Fprintln(c.stderr, roomText(gen))
	}
	c.asks = isTerminal(c.stdin) && isTerminal(c.stdout.To)
	return c.talk(ctx, gen)
}

func isTerminal(x any) bool {
	if q, ok := x.(*escaping); ok {
		x = q.to
	}
	f, ok := x.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// begin starts a conversation.
func (c *chatting) begin() {
	c.messages = nil
	if c.system != "" {
		c.messages = []tokenizer.Message{{Role: "system", Content: c.system}}
	}
}

// maxLine is the largest message in bytes.
const maxLine = 1 << 20

// line is a line of the input, or the error ending it.
type line struct {
	text string
	err  error
}

// lines reads lines until ctx ends. Reading from a terminal cannot be interrupted: the reading goroutine then ends
// with the process.
func lines(ctx context.Context, r io.Reader) <-chan line {
	out := make(chan line)
	go func() {
		s := bufio.NewScanner(r)
		s.Buffer(nil, maxLine)
		for s.Scan() {
			select {
			case out <- line{text: s.Text()}:
			case <-ctx.Done():
				return
			}
		}
		err := s.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("standard input: a line of more than %d bytes", maxLine)
		} else if err == nil {
			err = io.EOF
		}
		select {
		case out <- line{err: err}:
		case <-ctx.Done():
		}
	}()
	return out
}

// talk answers every line of the input.
func (c *chatting) talk(ctx context.Context, gen *generate.Generator) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := lines(ctx, c.stdin)
	out := newOutput(c.stdout)
	var unanswered error // of messages of a program, whose exit status says so
	for {
		if c.asks {
			out.print("> ")
		}
		var l line
		select {
		case l = <-in:
		case <-ctx.Done():
			return ctx.Err()
		}
		switch {
		case errors.Is(l.err, io.EOF):
			if c.asks {
				out.print("\n")
			}
			return cmp.Or(out.err, unanswered)
		case l.err != nil:
			return l.err
		case strings.TrimSpace(l.text) == "":
			continue
		case strings.TrimSpace(l.text) == newConversation:
			c.begin()
			continue
		}
		if err := c.answer(ctx, gen, out, l.text); err != nil {
			var long *generate.RoomError
			if !errors.As(err, &long) {
				return err
			}
			fmt.Fprintf(c.stderr, "%v (-room)\n", long) // the user can shorten the message
			if !c.asks {
				unanswered = errReported
			}
		}
		if out.err != nil {
			return out.err
		}
	}
}

// answer answers a message. If the conversation exceeds the context length, its oldest messages are dropped.
func (c *chatting) answer(ctx context.Context, gen *generate.Generator, out *generated, text string) error {
	all := append(c.messages, tokenizer.Message{Role: "user", Content: text})
	first := 0 // index of the first message that may be dropped
	if c.system != "" {
		first = 1
	}
	ids, err := c.tokens(all)
	left := 0
	for err == nil && len(ids)+max(c.n, gen.Room()/8) > gen.Room() && len(all) > first+2 {
		all = append(all[:first:first], all[first+2:]...) // drops a message and its answer
		left += 2
		ids, err = c.tokens(all)
	}
	if err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(c.stderr, "the context of %d positions is full: dropping the oldest %d messages\n", gen.Room(), left)
	}
	var answer strings.Builder
	before := gen.Stats()
	r, err := gen.Generate(ctx, generate.Request{Prompt: ids, N: c.n, Sampling: c.s, Ends: c.ends, Stops: c.stop}, func(x generate.Token) bool {
		answer.WriteString(x.Text)
		return out.print(x.Text)
	})
	if err != nil {
		if r.Tokens > 0 {
			out.print("\n")
		}
		return err
	}
	answer.WriteString(r.Rest)
	out.print(r.Rest + "\n")
	c.messages = append(all, tokenizer.Message{Role: "assistant", Content: answer.String()})
	if c.stats {
		fmt.Fprintf(c.stderr, "prompt: %d tokens, of which %d were in the caches, in %.3f s\n", r.Prompt, r.Reused, r.First.Seconds())
		if r.Tokens > 1 {
			fmt.Fprintf(c.stderr, "written: %d tokens, %.3f ms each\n", r.Tokens, r.Others.Seconds()*1e3/float64(r.Tokens-1))
		}
		fmt.Fprint(c.stderr, guessText(before, gen.Stats()))
	}
	return nil
}

// tokens returns the tokens of messages, followed by the opening of an answer.
func (c *chatting) tokens(messages []tokenizer.Message) ([]int32, error) {
	list, err := tokenizer.Messages(messages...)
	if err != nil {
		return nil, err
	}
	text, err := c.tok.Prompt(tokenizer.Conversation{Messages: list, Generate: true})
	if err != nil {
		return nil, err
	}
	return c.tok.Encode(text, tokenizer.Options{Bare: true})
}
