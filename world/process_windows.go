package world

import (
	"errors"
	"net"
	"os"
)

var errNoInheritance = errors.New("processes inherit no open files here")

func inheritedPipe(int) (*os.File, error)                 { return nil, errNoInheritance }
func inheritedListener(int, string) (net.Listener, error) { return nil, errNoInheritance }

// onDumpSignal does nothing: the system has no such signal.
func onDumpSignal(func()) func() { return func() {} }
