package mtl

// selectors holds every selector used, registered once. Looking up the name for every message would
// cost as much as the message.
type selectors struct {
	// NSObject and Foundation
	alloc, initialize, retain, release, count, objectAtIndex,
	stringWithUTF8String, utf8String, localizedDescription, domain, code,
	processInfo, systemAtLeast uintptr

	// MTLDevice
	name, registryID, hasUnifiedMemory, supportsFamily, maxThreadgroupMemoryLength,
	recommendedMaxWorkingSetSize, maxBufferLength, currentAllocatedSize,
	newCommandQueue, newSharedEvent, newBuffer, newBufferNoCopy, heapBufferSizeAndAlign, newHeap, newLibrary, newPipeline uintptr

	// MTLBuffer, MTLHeap and its descriptor
	contents, setLabel, setSize, setStorageMode, setHazardTrackingMode, usedSize, maxAvailableSize uintptr

	// MTLResidencySet, from macOS 15 on
	newResidencySet, addAllocation, removeAllocation, requestResidency, addResidencySet uintptr

	// MTLLibrary, its options, MTLFunctionConstantValues, MTLComputePipelineState
	setLanguageVersion, setFastMathEnabled, functionNames, newFunction, newFunctionConstants, setConstantValue,
	maxTotalThreads, executionWidth, staticMemory uintptr

	// MTLCommandQueue and MTLCommandBuffer
	commandBuffer, computeEncoder, blitEncoder, encodeSignal, encodeWait,
	commit, waitUntilCompleted, status, err, gpuStart, gpuEnd uintptr

	// encoders
	setPipeline, setBuffer, setBytes, setThreadgroupMemory, dispatch, barrier, pushGroup, popGroup, endEncoding,
	copyBuffer, fillBuffer uintptr

	// MTLSharedEvent
	signaledValue, setSignaledValue, waitUntilSignaled uintptr
}

// names returns the selectors by their names.
func (s *selectors) names() map[string]*uintptr {
	return map[string]*uintptr{
		"alloc": &s.alloc, "init": &s.initialize, "retain": &s.retain, "release": &s.release,
		"count": &s.count, "objectAtIndex:": &s.objectAtIndex,
		"stringWithUTF8String:": &s.stringWithUTF8String, "UTF8String": &s.utf8String,
		"localizedDescription": &s.localizedDescription, "domain": &s.domain, "code": &s.code,
		"processInfo": &s.processInfo, "isOperatingSystemAtLeastVersion:": &s.systemAtLeast,

		"name": &s.name, "registryID": &s.registryID, "hasUnifiedMemory": &s.hasUnifiedMemory, "supportsFamily:": &s.supportsFamily,
		"maxThreadgroupMemoryLength":   &s.maxThreadgroupMemoryLength,
		"recommendedMaxWorkingSetSize": &s.recommendedMaxWorkingSetSize,
		"maxBufferLength":              &s.maxBufferLength, "currentAllocatedSize": &s.currentAllocatedSize,
		"newCommandQueue": &s.newCommandQueue, "newSharedEvent": &s.newSharedEvent,
		"newBufferWithLength:options:":                         &s.newBuffer, // of devices and of heaps
		"newBufferWithBytesNoCopy:length:options:deallocator:": &s.newBufferNoCopy,
		"heapBufferSizeAndAlignWithLength:options:":            &s.heapBufferSizeAndAlign,
		"newHeapWithDescriptor:":                               &s.newHeap,
		"newLibraryWithSource:options:error:":                  &s.newLibrary,
		"newComputePipelineStateWithFunction:error:":           &s.newPipeline,

		"contents": &s.contents, "setLabel:": &s.setLabel,
		"setSize:": &s.setSize, "setStorageMode:": &s.setStorageMode, "setHazardTrackingMode:": &s.setHazardTrackingMode,
		"usedSize": &s.usedSize, "maxAvailableSizeWithAlignment:": &s.maxAvailableSize,

		"newResidencySetWithDescriptor:error:": &s.newResidencySet,
		"addAllocation:":                       &s.addAllocation, "removeAllocation:": &s.removeAllocation,
		"requestResidency": &s.requestResidency, "addResidencySet:": &s.addResidencySet,

		"setLanguageVersion:": &s.setLanguageVersion, "setFastMathEnabled:": &s.setFastMathEnabled, "functionNames": &s.functionNames,
		"newFunctionWithName:":                      &s.newFunction,
		"newFunctionWithName:constantValues:error:": &s.newFunctionConstants,
		"setConstantValue:type:atIndex:":            &s.setConstantValue,
		"maxTotalThreadsPerThreadgroup":             &s.maxTotalThreads,
		"threadExecutionWidth":                      &s.executionWidth,
		"staticThreadgroupMemoryLength":             &s.staticMemory,

		"commandBuffer":                          &s.commandBuffer,
		"computeCommandEncoderWithDispatchType:": &s.computeEncoder,
		"blitCommandEncoder":                     &s.blitEncoder,
		"encodeSignalEvent:value:":               &s.encodeSignal,
		"encodeWaitForEvent:value:":              &s.encodeWait,
		"commit":                                 &s.commit, "waitUntilCompleted": &s.waitUntilCompleted, "status": &s.status, "error": &s.err,
		"GPUStartTime": &s.gpuStart, "GPUEndTime": &s.gpuEnd,

		"setComputePipelineState:":                    &s.setPipeline,
		"setBuffer:offset:atIndex:":                   &s.setBuffer,
		"setBytes:length:atIndex:":                    &s.setBytes,
		"setThreadgroupMemoryLength:atIndex:":         &s.setThreadgroupMemory,
		"dispatchThreadgroups:threadsPerThreadgroup:": &s.dispatch,
		"memoryBarrierWithScope:":                     &s.barrier,
		"pushDebugGroup:":                             &s.pushGroup, "popDebugGroup": &s.popGroup, "endEncoding": &s.endEncoding,
		"copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:": &s.copyBuffer,
		"fillBuffer:range:value:":                                      &s.fillBuffer,

		"signaledValue": &s.signaledValue, "setSignaledValue:": &s.setSignaledValue,
		"waitUntilSignaledValue:timeoutMS:": &s.waitUntilSignaled,
	}
}
