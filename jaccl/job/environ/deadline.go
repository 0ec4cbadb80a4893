package environ

import (
	"fmt"
	"time"

	"github.com/gomoe/gomoe/internal/quoted"
)

// The shortest and the longest deadline that users may set. A rank on a busy machine may
// be late by some hundred milliseconds without any fault.
const (
	minDeadline = time.Second
	maxDeadline = 24 * time.Hour
)

// ParseDeadline reads the time that ranks wait for each other: a number with its unit,
// such as 90s or 10m, from 1 s to 24 h.
func ParseDeadline(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < minDeadline || d > maxDeadline {
		return 0, fmt.Errorf("want a number with its unit, such as 90s or 10m, from %v to %.0fh", minDeadline, maxDeadline.Hours())
	}
	return d, nil
}

// Deadline returns the time that ranks wait for each other from GOMOE_DEADLINE; 0 if it
// is not set.
func Deadline(getenv func(string) string) (time.Duration, error) {
	s := getenv(gomoeDeadline)
	if s == "" {
		return 0, nil
	}
	d, err := ParseDeadline(s)
	if err != nil {
		return 0, fmt.Errorf("environ: %s=%s: %w", gomoeDeadline, quoted.Plain(s), err)
	}
	return d, nil
}
