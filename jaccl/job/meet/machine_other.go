//go:build !linux && !darwin

package meet

// thisMachine cannot identify the kernel here, so that no two ranks share memory. Ranks
// whose machines have the same name share loopback.
func thisMachine() machine { return machine{network: hostname()} }
