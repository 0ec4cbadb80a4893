package lm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/world"
)

// reported is an error that was already written to standard error.
type reported struct{ error }

func (r *reported) Unwrap() error { return r.error }

// Main runs a Command as the whole of a program, with the program's arguments, and does not return. The first Ctrl-C ends a
// training after the current step and keeps everything done so far, a second one ends it at once. SIGTERM, which batch
// systems send before they kill, does the same.
func Main(c Command) {
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
	err := c.Run(ctx, stop, os.Args[1:], stdout)
	if err == nil && stdout.Err != nil {
		err = fmt.Errorf("standard output: %w", stdout.Err)
	}
	if err != nil {
		if _, done := err.(*reported); !done {
			fmt.Fprintf(os.Stderr, "%s: %v\n", c.Name, err)
		}
		os.Exit(world.Status(err))
	}
	os.Exit(0)
}
