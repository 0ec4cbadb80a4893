//go:build linux && !native

package faults_test

func nativeTransports() []transport { return nil }
