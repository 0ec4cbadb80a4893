//go:build !amd64 && !arm64

package recurrence

import "github.com/gomoe/gomoe/internal/kernel"

// columns returns the number of columns of the next step, where `left` are left.
func columns[T kernel.Float](left int) int { return min(left, portableWidth) }

// runRow is never reached: other architectures have the steps in Go only.
func runRow(int, *rowArgs) { panic("recurrence: no vectors on this architecture") }
