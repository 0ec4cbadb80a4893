package metaltest

import (
	"context"
	"sync"

	"github.com/gomoe/gomoe/metal/internal/emu"
)

// bench has the emulated GPU's libraries that the tests of a process share: to look for a
// compiler and to load a library take longer than most instructions.
type bench struct {
	compiler *emu.Compiler
	err      error // why there is none

	mu   sync.Mutex
	libs map[text]*emu.Library
}

// text is a source, and how it is built.
type text struct {
	source string
	how    emu.BuildOptions
}

var shared = sync.OnceValue(func() *bench {
	c, err := emu.Find()
	return &bench{compiler: c, err: err, libs: map[text]*emu.Library{}}
})

// Library returns what is built of a source, loaded, which stays until the process ends;
// nobody closes it. The error wraps emu.ErrNoCompiler where there is no compiler.
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
