package kernels

// routing is what routes tokens to experts and moves their rows.
func routing() []Kernel {
	return []Kernel{router(), topK(), epCount(), epPrepare(), epZones(), epSendOrder(), epRecvOrder(), epRows(), epSum()}
}
