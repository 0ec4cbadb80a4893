// Package interrupt says how commands end when a signal asks for it. A command that has done what it was asked for exits with
// status 0, also where a signal has asked a server to end. One that a signal has ended before that saves what it has, says
// so, and then ends by that signal: a shell ends the loop that it stands in and otherwise sees 128 plus the signal's number,
// systemd does not take it for a failure, and Kubernetes and batch systems do not take the work for done.
package interrupt

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// SignalError is the cause of a context that a signal has ended. It is a context.Canceled.
type SignalError struct{ syscall.Signal }

func (s *SignalError) Error() string { return s.Signal.String() }
func (s *SignalError) Unwrap() error { return context.Canceled }

// Context returns a context that the first Ctrl-C or SIGTERM ends. A second one ends the process at once.
func Context() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s, _ := (<-signals).(syscall.Signal)
		signal.Stop(signals)
		end(&SignalError{s})
	}()
	return ctx
}

// Status returns the exit status of a command that ends with err: 128 plus the number of the signal that has ended ctx, if
// err comes of that, else otherwise.
func Status(ctx context.Context, err error, otherwise int) int {
	var s *SignalError
	if errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &s) {
		return 128 + int(s.Signal)
	}
	return otherwise
}

// Exit ends the process with a status: with that of the signal that has ended ctx, by the signal.
func Exit(ctx context.Context, status int) {
	var s *SignalError
	if errors.As(context.Cause(ctx), &s) && status == 128+int(s.Signal) && os.Getpid() != 1 { // which no signal ends in a container
		if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(s.Signal) == nil {
			time.Sleep(time.Second) // it comes within no time, to one of the threads
		}
	}
	os.Exit(status)
}
