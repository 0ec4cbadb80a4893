package lm

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gomoe/gomoe/internal/interrupt"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/world"
)

// reported is an error already written to standard error.
type reported struct{ error }

func (r *reported) Unwrap() error { return r.error }

// Main runs a Command as a whole program, using the program's arguments, and does not return. The first Ctrl-C or
// SIGTERM, which batch systems send before killing, ends training after the current step and keeps all results so
// far; the program then ends by that signal. A second one ends it at once.
func Main(c Command) {
	stop := interrupt.Context()
	stdout := &whole.Output{To: os.Stdout}
	err := c.Run(context.Background(), stop, os.Args[1:], stdout)
	if err == nil && stdout.Err != nil {
		err = fmt.Errorf("standard output: %w", stdout.Err)
	}
	if said := (*reported)(nil); err != nil && !errors.As(err, &said) {
		fmt.Fprintf(os.Stderr, "%s: %s\n", c.Name, quoted.Message(err.Error()))
	}
	interrupt.Exit(stop, interrupt.Status(stop, err, world.Status(err)))
}
