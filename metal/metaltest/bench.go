package metaltest

import (
	"context"
	"sync"

	"github.com/gomoe/gomoe/metal/internal/emu"
)

// bench holds the libraries of the emulated GPU shared by the tests of a process, because looking
// for a compiler and loading a library take longer than most instructions.
type bench struct {
	compiler *emu.Compiler
	err      error // the reason for a missing compiler

	mu   sync.Mutex
	libs map[text]*emu.Library
}

// text is a source and the options for building it.
type text struct {
	source string
	how    emu.BuildOptions
}

var shared = sync.OnceValue(func() *bench {
	c, err := emu.Find()
	return &bench{compiler: c, err: err, libs: map[text]*emu.Library{}}
})

// Library builds a source and loads the result, which stays loaded until the process ends: the
// caller must not close it. If there is no compiler, the error wraps emu.ErrNoCompiler.
func Library(ctx context.Context, source string, how emu.BuildOptions) (*emu.Library, error) {
	b := shared()
	if b.err != nil {
		return nil, b.err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := text{source, how}
	if b.libs[key] != nil {
		return b.libs[key], nil
	}
	path, err := b.compiler.Build(ctx, source, how)
	if err != nil {
		return nil, err
	}
	l, err := emu.Open(path)
	if err == nil {
		b.libs[key] = l
	}
	return l, err
}
