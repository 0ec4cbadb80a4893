package kernel

// vectorKinds returns NEON, which every arm64 processor runs: vectors of 16 bytes are
// part of the architecture.
func vectorKinds() []Kind { return []Kind{NEON} }
