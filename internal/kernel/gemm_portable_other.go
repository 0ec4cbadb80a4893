//go:build !amd64

package kernel

func gemmBlock[T Float](in, jn, kn int, rows, panel []T, stride int, sums []T) {
	portableBlock(in, jn, kn, rows, panel, stride, sums)
}
