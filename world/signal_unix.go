//go:build unix

package world

import (
	"os"
	"os/signal"
	"syscall"
)

// onDumpSignal calls f for every SIGUSR1. The returned function ends this, waiting for a
// call in progress.
func onDumpSignal(f func()) func() {
	signals := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		defer close(done)
		for range signals {
			f()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
