//go:build !(linux && (amd64 || arm64))

package standin

import (
	"context"
	"fmt"
	"runtime"

	"github.com/gomoe/gomoe/metal/counts"
	"github.com/gomoe/gomoe/metal/internal/emu"
)

// Standin would be a stand-in; on this system there are none.
type Standin struct{}

// Open returns an error: the stand-in is for Linux.
func Open(ctx context.Context, c *emu.Compiler, o Options) (*Standin, error) {
	return nil, fmt.Errorf("standin: the stand-in for Metal runs on linux/amd64 and linux/arm64, this is %s/%s", runtime.GOOS, runtime.GOARCH)
}

// Handle is 0.
func (s *Standin) Handle() uintptr { return 0 }

// FailCommandBuffer does nothing.
func (s *Standin) FailCommandBuffer(after int, domain string, code int, text string) {}

// Report is empty.
func (s *Standin) Report() *Report { return &Report{} }

// Counts is empty.
func (s *Standin) Counts() counts.Device { return counts.Device{} }

// Close does nothing.
func (s *Standin) Close() *Report { return &Report{} }
