//go:build !unix

package main

import "os"

// peakOf returns 0: the peak memory of a process is unknown on this system.
func peakOf(*os.ProcessState) int64 { return 0 }
