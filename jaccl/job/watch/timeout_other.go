//go:build !linux && !darwin

package watch

import "time"

// userTimeout does nothing: the system has no such option, and Options.Silence
// has to pass.
func userTimeout(fd uintptr, d time.Duration) {}
