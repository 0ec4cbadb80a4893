// Command ep_moe runs stacked expert-parallel layers of linear experts, forward and backward, and checks them
// against loops over tokens. It is the same job as TransformerEngine's examples/jax/ep/ep_moe.py, having its flags,
// its routing and its lines of output. Unlike the original, it differentiates with respect to tokens, router weights
// and kernels, accepts any routing, and compares the iterations bit for bit.
//
//	go run ./examples/ep_moe
//	go run ./examples/ep_moe -mesh dp=1,ep=4 -num-layers 3 -dtype bf16
//	go run ./cmd/gomoe launch -n 4 -- go run ./examples/ep_moe    # a process per rank
//	go run ./cmd/gomoe launch -n 2 -transport ring -- go run ./examples/ep_moe -mesh ep=2 -whole    # over MLX's ring
//	go run ./examples/ep_moe -device metal        # kernels on Apple's GPU, on a Mac
//	go run -tags native ./examples/ep_moe -device metal-emulated    # the same kernels here
//	go run ./examples/ep_moe -in DIR -out DIR     # tensors from and to .npy files
package main
