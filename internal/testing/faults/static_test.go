//go:build linux && !native

package faults_test

const native = false
