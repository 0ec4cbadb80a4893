package kernels

// routing returns the kernels that route tokens to experts and move their rows.
func routing() []Kernel {
	return []Kernel{router(), topK(), epCount(), epChoices(), epTable(), epKeep(), epPrepare(), epAlone(), epInline(), epZones(), epSendOrder(), epRecvOrder(), epJourney(), epPassage(), epSlots(), epRows(), epPackF8(), epPackSums(), epSum(), epMachineSum()}
}
