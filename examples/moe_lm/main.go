package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/data/text"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/world"
)

func main() {
	// The first Ctrl-C ends the run after the current step and keeps everything
	// done so far. A second one ends the run at once. SIGTERM, which batch systems
	// send before they kill, does the same.
	stop, end := context.WithCancelCause(context.Background())
	ctx, abort := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		end(errors.New("interrupted"))
		<-signals
		signal.Stop(signals) // so that a third one ends the process in any case
		abort(errors.New("interrupted again"))
	}()
	stdout := &whole.Output{To: os.Stdout}
	err := run(ctx, stop, os.Args[1:], stdout)
	if err == nil && stdout.Err != nil {
		err = fmt.Errorf("standard output: %w", stdout.Err)
	}
	if err != nil {
		if _, done := err.(*reported); !done {
			fmt.Fprintln(os.Stderr, "moe_lm:", err)
		}
		os.Exit(1)
	}
}

// run does what the command line asks for. It ends early but in order when stop
// ends, and at once when ctx ends.
func run(ctx, stop context.Context, args []string, stdout io.Writer) (err error) {
	c, o, err := parse(args)
	var h *help
	if errors.As(err, &h) {
		_, err := io.WriteString(stdout, h.text)
		return err
	}
	if err != nil {
		return err
	}
	var w world.World
	defer w.Close()
	if err := w.Setup(ctx, world.Config{Mesh: &o.mesh, Transport: *o.transport, Deadline: *o.deadline}); err != nil {
		return err
	}
	if o.info, err = w.Info(); err != nil {
		return err
	}
	if err := c.room(o.mesh, len(o.info.Local), memory.Available()); err != nil {
		return err
	}
	if o.check {
		if err := c.room(sharding.Mesh{}, 1, memory.Available()); err != nil {
			return err
		}
	}
	if c.world = &w; !o.info.First() {
		stdout = io.Discard // only the first rank prints
	}
	device, err := gomoe.OpenDevice(ctx, o.device)
	if err != nil {
		return fmt.Errorf("-device: %w", err)
	}
	if device != nil {
		o.on = device
		defer func() { err = also(err, device.Close()) }()
	}
	corpus, err := text.Load(stop, text.Options{Data: o.data, Limit: o.limit, Seed: o.seed})
	if err != nil {
		return err
	}
	o.same["text"] = corpus.Hash()
	if err := w.Same(ctx, o.same); err != nil {
		return err
	}
	if o.check {
		return check(stop, stdout, c, o, corpus)
	}
	return learn(ctx, stop, c, o, corpus, stdout)
}
