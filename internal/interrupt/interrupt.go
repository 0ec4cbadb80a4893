// Package interrupt determines how commands end after a signal. A command that has
// completed its task exits with status 0, even if a signal has told a server to end. A
// command ended by a signal before that saves its state, prints a message, and then ends
// by that signal: a shell ends the loop containing the command and otherwise sees 128
// plus the signal's number, systemd does not treat it as a failure, and Kubernetes and
// batch systems do not treat the work as done.
package interrupt

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// SignalError is the cause of a context ended by a signal. It is a context.Canceled.
type SignalError struct{ syscall.Signal }

func (s *SignalError) Error() string { return s.Signal.String() }
func (s *SignalError) Unwrap() error { return context.Canceled }

// Context returns a context that the first Ctrl-C, SIGTERM or SIGHUP ends, which the end of a terminal sends, unless
// it is ignored as under nohup. A second signal ends the process at once.
func Context() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		s, _ := (<-signals).(syscall.Signal)
		signal.Stop(signals)
		end(&SignalError{s})
	}()
	return ctx
}

// Status returns the exit status of a command ending with err: 128 plus the number of the
// signal that has ended ctx, if err results from it, else otherwise.
func Status(ctx context.Context, err error, otherwise int) int {
	var s *SignalError
	if errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &s) {
		return 128 + int(s.Signal)
	}
	return otherwise
}

// Exit ends the process with a status: if it is the status of the signal that has ended
// ctx, by that signal.
func Exit(ctx context.Context, status int) {
	var s *SignalError
	if errors.As(context.Cause(ctx), &s) && status == 128+int(s.Signal) && os.Getpid() != 1 { // in a container, no signal ends it
		if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(s.Signal) == nil {
			time.Sleep(time.Second) // it is delivered at once, to one of the threads
		}
	}
	os.Exit(status)
}
