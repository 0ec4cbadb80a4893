package kernels

// routing returns the kernels that route tokens to experts and move their rows.
func routing() []Kernel {
	return []Kernel{router(), topK(), epCount(), epPrepare(), epZones(), epSendOrder(), epRecvOrder(), epRows(), epSum()}
}
