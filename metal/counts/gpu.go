package counts

import "time"

// GPU holds the peak rates of a GPU, per second.
type GPU struct {
	Name        string
	Memory      float64 // bytes
	Threadgroup float64 // bytes loaded from threadgroup memory, by all cores together
	F32, F16    float64 // floating-point operations, counting a multiply-add as two
	// Tensor is the rate of 16-bit operations of the neural accelerators, which tensor operations use; 0
	// for a GPU without them.
	Tensor float64
	Source string
}

// perCore is the peak rate of a core per cycle: 128 multiply-adds in f32 or f16, shared with simdgroup
// matrices, and 64 bytes of threadgroup memory. Measured for the families Apple7 and Apple8
// (github.com/philipturner/metal-benchmarks); later families are assumed to be alike.
const (
	coreFlops = 256
	coreBytes = 64
)

// coreTensor is the number of f16 and bf16 operations of a core's neural accelerator per cycle, measured on
// an A19 (tzakharko.github.io/apple-neural-accelerators-benchmark).
const coreTensor = 1024

// accelerated returns a GPU whose cores have neural accelerators.
func accelerated(g GPU) GPU {
	g.Tensor = g.F32 / coreFlops * coreTensor
	return g
}

// gpu returns a GPU with the given number of cores.
func gpu(name string, cores, megahertz, gigabytes float64, source string) GPU {
	cycles := cores * megahertz * 1e6
	return GPU{Name: name, Memory: gigabytes * 1e9, Threadgroup: cycles * coreBytes, F32: cycles * coreFlops, F16: cycles * coreFlops, Source: source}
}

// GPUs returns the GPUs of some Macs, each with the largest number of cores that the chip is sold with.
func GPUs() []GPU {
	return []GPU{
		gpu("M1 Max", 32, 1296, 400, "Apple's figure of bandwidth; 32 cores at 1296 MHz: metal-benchmarks"),
		gpu("M3 Max", 40, 1398, 400, "Apple's figure of bandwidth; 40 cores at 1398 MHz: hmc-tech.com"),
		gpu("M4 Max", 40, 1678, 546, "Apple's figure of bandwidth; 40 cores at 1678 MHz: hmc-tech.com"),
		accelerated(gpu("M5", 10, 1470, 153, "Apple's figure of bandwidth; 10 cores, at the clock of the M4's, 1470 MHz (hmc-tech.com), as none is published; neural accelerators, which only tensor operations use, as measured on an A19: tzakharko.github.io")),
	}
}

// Bound is the bottleneck of a kernel.
type Bound string

// Bounds.
const (
	Memory      Bound = "memory"
	Arithmetic  Bound = "arithmetic"
	Threadgroup Bound = "threadgroup memory"
)

// Time returns a lower bound on the GPU's time for the work, and the bottleneck: bytes of memory, each read
// once per dispatch; arithmetic; or bytes loaded from threadgroup memory. Arithmetic is the sum of matrix
// products, threads' instructions, each taking as long as a multiply-add, and tensor operations, which GPUs
// without neural accelerators compute like 16-bit matrices. Launch overhead is not included.
func (g GPU) Time(c Counts) (time.Duration, Bound) {
	memory := float64(c.Device.Once+c.Constant.Once+c.Device.Written) / g.Memory
	arithmetic := 2*float64(c.Products16)/g.F16 + 2*float64(c.Products32)/g.F32 + 2*float64(c.Operations)/g.F32
	tensor := g.Tensor
	if tensor == 0 {
		tensor = g.F16
	}
	arithmetic += 2 * float64(c.ProductsTensor) / tensor
	threadgroup := float64(c.Threadgroup.Loaded) / g.Threadgroup
	most, by := memory, Memory
	if arithmetic > most {
		most, by = arithmetic, Arithmetic
	}
	if threadgroup > most {
		most, by = threadgroup, Threadgroup
	}
	return time.Duration(most * 1e9), by
}
