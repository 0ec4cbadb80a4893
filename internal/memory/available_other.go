//go:build !linux

package memory

// Available returns no limit: it is not known how this system says it.
func Available() Limit { return unlimited() }
