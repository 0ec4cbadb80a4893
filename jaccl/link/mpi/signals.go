package mpi

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/dynlib"
)

// signals are the handlers of this process, by number, as the C library returns them.
type signals struct {
	sigaction uintptr
	actions   [32][]byte
}

// actionBytes is more than struct sigaction has anywhere: glibc's has 152 bytes.
const actionBytes = 256

// handlers returns the handler of each signal.
func handlers() *signals {
	s := &signals{}
	var err error
	if s.sigaction, err = dynlib.C("sigaction"); err != nil {
		return s // empty; not reached on systems that can load MPI
	}
	for sig := 1; sig < len(s.actions); sig++ {
		b := words(actionBytes)
		if call(s.sigaction, uintptr(sig), 0, uintptr(unsafe.Pointer(&b[0]))) == 0 {
			s.actions[sig] = b
		}
	}
	return s
}

// restore puts the handlers back. Go's runtime depends on its own handlers: it turns
// faults into panics, and preempts goroutines by a signal.
func (s *signals) restore() {
	for sig, b := range s.actions {
		if b != nil {
			call(s.sigaction, uintptr(sig), uintptr(unsafe.Pointer(&b[0])), 0) // fails for SIGKILL and SIGSTOP, which cannot be changed
		}
	}
}
