//go:build !amd64

package gemm

import "github.com/gomoe/gomoe/internal/kernel"

func gemmBlock[T kernel.Float](in, jn, kn int, rows, panel []T, stride int, sums []T) {
	portableBlock(in, jn, kn, rows, panel, stride, sums)
}
