package kernels

// routing returns the kernels routing tokens to experts and moving their rows.
func routing() []Kernel {
	return []Kernel{router(), topK(), epCount(), epChoices(), epTable(), epKeep(), epPrepare(), epAlone(), epInline(), epZones(), epSendOrder(), epRecvOrder(), epOrder(), epJourney(), epPassage(), epSlots(), epRows(), epPackF8(), epPackSums(), epSum(), epMachineSum()}
}
