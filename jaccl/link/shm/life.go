//go:build linux || darwin

package shm

import (
	"errors"
	"fmt"
	"os"
)

// life tells a process from a later one with the same number. The end of a process only
// ends the exchange that waits for it; package watch decides which rank the job has lost.
type life struct {
	pid   int
	start uint64 // when it started, in the system's unit
}

// self returns the life of this process.
func self() (life, error) {
	start, running, err := startOf(os.Getpid())
	if err == nil && !running {
		err = errors.New("no such process")
	}
	if err != nil {
		return life{}, fmt.Errorf("when this process started: %w; mount the /proc of its name space of processes", err)
	}
	return life{os.Getpid(), start}, nil
}

// check returns an error if the process has ended, even if its parent has not waited for
// it yet.
func (l life) check() error {
	if l.pid == os.Getpid() {
		return nil
	}
	start, running, err := startOf(l.pid)
	if err != nil {
		return fmt.Errorf("is process %d, of which nothing can be learnt: %w", l.pid, err)
	}
	if !running || start != l.start {
		return fmt.Errorf("has ended (process %d)", l.pid)
	}
	return nil
}
