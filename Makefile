# Targets: all build test test-kernels test-amx test-native test-peers test-arm64 unfused lint generated size race golden fuzz programs kills soak bench figures bench-peers examples cross clean
#
# ARM64=qemu-aarch64 ...   the emulator running arm64 programs, from Debian's qemu-user;
#                libc6-arm64-cross has the C library loaded by programs using package mpi or rdma
# FUZZTIME=20s   how long each fuzz test runs, or how many inputs (500x)
# PROGRAMS=500   how many random programs the target programs makes, and FIRST=1 the first one's seed
# SOAKTIME=1h    how long the test with random faults runs
# BENCHTIME=1s   how long each benchmark runs
# TESTFLAGS=     further flags of go test
# BENCHPEERS=    flags of go run ./bench

GO        ?= go
FUZZTIME  ?= 20s
PROGRAMS  ?= 500
FIRST     ?= $(shell date +%s)000
SOAKTIME  ?= 1h
BENCHTIME ?= 1s
FIGURES    = RematArena|ContractOneTokenIsOneSum|AccumulateMemory|ContractARowTravelsOncePerRank|ContractBlocksBoundMemory|LoopHasThePlanOfOneLayer|SumsAreJoined
TESTFLAGS ?=
ARM64     ?= qemu-aarch64 -L /usr/aarch64-linux-gnu

# For repeated test runs: collecting garbage less often saves a third of the processor time of primitives.
COLLECT = GOGC=400 GOMEMLIMIT=2GiB

# The module is pure Go; only the race detector needs cgo.
export CGO_ENABLED = 0

# Platforms without test runs. For these, programs are compiled and linked without optimization, which
# would take twice as long.
PLATFORMS   = darwin/arm64 darwin/amd64 windows/amd64
UNOPTIMISED = -gcflags='all=-N -l -dwarf=false' -ldflags='-s -w'

# The tests of metal/kernels that run a sample of their rows without -every.
TABLES = TestBlocks|TestBlocksBits|TestDecodeReadsOnce|TestGroupedProducts|TestInlineLayer|TestRoutedF8|TestRoutedLayer|TestRoutedPayloads|TestRoutedSizes|TestThroughMachines

# The parts of test-native.
NATIVE = native-programs native-training native-contract late-contract arithmetic

.PHONY: all build test test-kernels test-amx test-native test-peers test-arm64 unfused lint generated size race golden fuzz programs kills soak bench figures bench-peers examples cross clean $(NATIVE) arm64-kernels arm64-calls

all: build lint test

build:
	$(GO) build ./...
	$(GO) build -o bin/ ./cmd/...

# The longest start first, so that none is left running alone at the end.
test:
	$(GO) test $(TESTFLAGS) ./primitives ./docs ./metal/kernels ./examples/moe_lm ./...

# Tests of behaviour that depends neither on the kernels nor on the processor: placements of programs,
# gradients of f64 products with blocks, and failures of processes, their checkpoints and their
# launchers.
SAME = TestPlacements|TestBlocksGradient|TestProcess.*|TestLauncher|TestSlurm|TestKilled|TestRestarts|TestFewerHosts|TestSavesApart|TestDiskFull|TestFull.*|TestInterrupt.*|TestSignals

# The computing packages, rerun with each of the other kernels supported by this processor, on fewer meshes.
test-kernels:
	@set -e; for k in $$($(GO) run ./cmd/gomoe version -kernels | tail -n +2); do \
		echo "GOMOE_KERNELS=$$k $(GO) test"; \
		$(COLLECT) GOMOE_KERNELS=$$k $(GO) test -short -skip '^($(SAME))$$' $(TESTFLAGS) ./primitives ./examples/... ./internal/kernel/...; \
	done
	@if $(GO) run ./cmd/gomoe version -kernels | grep -qx avx512; then $(MAKE) --no-print-directory test-amx; fi

# Products of bf16, and with weights in blocks, on AMX's tiles. On a processor with AVX-512
# only, internal/testing/amx emulates the missing instructions.
test-amx: AMX = $(if $(shell $(GO) run ./cmd/gomoe version -kernels | grep -x amx),,-tags amx_emulated -exec "$(CURDIR)/bin/amx")
test-amx:
	$(GO) build -o bin/amx ./internal/testing/amx
	$(GO) test $(AMX) -run Half $(TESTFLAGS) ./internal/kernel/gemm
	$(GO) test $(AMX) -run 'ManyRows|StayInside' $(TESTFLAGS) ./internal/kernel/blocks

# With ranks of MLX and JACCL themselves, and launchers other than Open MPI's: a python that
# has mlx in GOMOE_TEST_MLX, the program of jaccl/mlx/mesh/testdata/rank.cpp in
# GOMOE_JACCL_RANK, mpiexec.hydra and mlx.launch. MLX's messages are recorded for the
# other tests. Converted models and adapters with mlx-lm, which that python has, too, with llama.cpp, of
# a python that has llama_cpp in GOMOE_TEST_LLAMA, and with PEFT, in GOMOE_TEST_PEFT. And the server with OpenAI's client, of a python in GOMOE_TEST_OPENAI, and
# its page in a Chromium without a window, whose program is GOMOE_TEST_CHROMIUM.
test-peers:
	$(GO) test -tags peers -run '^(TestMLX|TestJACCL|TestOtherLaunchers)$$' $(TESTFLAGS) ./jaccl/mlx/ring ./jaccl/mlx/mesh ./examples/ep_moe
	$(GO) test -tags peers -run '^(TestOpenAI|TestBrowser|TestBrowserStops)$$' $(TESTFLAGS) ./serve
	$(GO) test -tags peers -timeout 60m -run '^(TestMLXLoads|TestPEFTLoads|TestPrograms)$$' $(TESTFLAGS) ./finetune ./convert

# Tests specific to programs loading libraries of the system: MPI, RDMA verbs and Metal, or its
# stand-in, with the examples and the tests of expert parallelism running on it. The latter also
# run on a device in plain Go that completes its work late. Last, Metal's kernels with fused
# products and sums, and with subnormal numbers flushed to zero. These parts wait most of the
# time: make -j runs them in parallel.
test-native: $(NATIVE)

native-programs:
	$(GO) test -tags native $(TESTFLAGS) . ./world ./internal/testing/faults ./cmd/gomoe ./examples/ep_moe

native-training:
	$(GO) test -tags native $(TESTFLAGS) -run '^(TestOnDevice|TestExactOverLibraries)$$' ./examples/moe_lm

native-contract:
	$(GO) test -tags native $(TESTFLAGS) -timeout 30m -run Contract ./primitives -device metal-emulated

late-contract:
	$(GO) test $(TESTFLAGS) -run Contract ./primitives -device late

# Counts are checked with the default arithmetic only.
arithmetic:
	GOMOE_TEST_ARITHMETIC=1 $(GO) test ./metal/kernels -skip '(Reads.*Once|ThreadgroupMemory|Counts)$$' -timeout 30m $(TESTFLAGS) -every

# The kernels and the packages computing with them, as linux/arm64, on fewer meshes, and argument
# passing of messages to Metal, to callees compiled by clang for arm64. Ranks that are processes
# could not start themselves there.
test-arm64: unfused arm64-kernels arm64-calls

arm64-kernels:
	$(COLLECT) GOARCH=arm64 $(GO) test -exec "$(ARM64)" -short -skip '^($(SAME))$$' $(TESTFLAGS) ./primitives ./internal/kernel/... ./examples/ep_moe

arm64-calls:
	GOARCH=arm64 $(GO) test -exec "$(ARM64)" -run '^(TestABI|TestTrampoline)$$' $(TESTFLAGS) ./metal/mtl ./metal/internal/standin

# On arm64 the compiler fuses x*y + z, with one rounding, unless the product is
# converted: float64(x*y) + z. Results that must equal amd64's must not be fused.
UNFUSED = ./array ./convert ./data ./ep ./evaluate ./generate ./internal/kernel/... ./jaccl/engine ./lowering ./models ./nn ./primitives ./quant ./runtime ./tokenizer ./train

unfused:
	@GOARCH=arm64 $(GO) build $(UNFUSED)
	@found=$$(GOARCH=arm64 $(GO) build -gcflags=-S $(UNFUSED) 2>&1 | grep -E '\sFN?M(ADD|SUB)[SD]\s' | \
	sed -nE 's|^.*\(([^()]*\.go):([0-9]+)\).*$$|\1 \2|p' | sort -u); \
	if [ -z "$$found" ]; then echo "no fused instructions found, not even math.FMA; read this target"; exit 1; fi; \
	fused=$$(echo "$$found" | while read -r file line; do \
		sed -n "$${line}p" "$$file" | grep -q 'math\.FMA(' || echo "$$file:$$line"; \
	done); \
	if [ -n "$$fused" ]; then echo "fused on arm64, convert the products or write math.FMA:"; echo "$$fused"; exit 1; fi

# The packages in which ranks share memory, with jobs of some sizes only.
race:
	CGO_ENABLED=1 $(GO) test -race -short $(TESTFLAGS) ./runtime/... ./jaccl/... ./internal/flight ./internal/launch ./internal/measure ./world ./lowering/...

lint:
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted, run gofmt -w:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags peers ./jaccl/mlx/ring ./jaccl/mlx/mesh ./examples/ep_moe ./serve ./finetune ./convert
	$(GO) vet -tags amx_emulated ./internal/kernel
	$(GO) vet -tags soak ./internal/testing/soak
	$(GO) vet -tags native . ./world ./internal/testing/faults ./cmd/gomoe ./examples/...
	GOOS=linux GOARCH=arm64 $(GO) vet ./...
	@set -e; for p in $(filter-out darwin/amd64,$(PLATFORMS)); do \
		echo "GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet ./..."; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet $(UNOPTIMISED) ./...; \
	done
	@# Of packages that no processor's name is in, darwin/arm64 has had the same files; asm is a module of its own.
	GOOS=darwin GOARCH=amd64 $(GO) vet $(UNOPTIMISED) $$(grep -rl --include='*.go' --exclude-dir=asm -e amd64 -e arm64 . | xargs -n1 dirname | sort -u)

# Lines, files, exported names and options per package, next to their changes since the last release.
size:
	@$(GO) run ./internal/policy/size

# Regenerates all assembly, and fails if it differs from the committed files.
generated:
	@git ls-files -z -- '*/asm_*' | xargs -0 rm -f
	$(GO) generate ./internal/kernel/... ./internal/half
	@git diff --exit-code --stat -- '*/asm_*' || { echo "the assembly is not what its generators write: commit what they wrote, or change them"; exit 1; }
	@new=$$(git ls-files -o --exclude-standard -- '*/asm_*'); [ -z "$$new" ] || { echo "assembly that is not committed: $$new"; exit 1; }

cross:
	GOOS=linux GOARCH=arm64 $(GO) build ./...
	@set -e; for p in $(PLATFORMS); do \
		echo "GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build ./..."; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build $(UNOPTIMISED) ./...; \
	done

# Rewrites the packages' golden files; read the diff.
golden:
	@set -e; for d in $$(grep -rl --include='*_test.go' 'flag.Bool("update"' . | xargs -n1 dirname | sort -u); do \
		echo "$(GO) test $$d -update"; \
		$(GO) test $$d -update; \
	done

# Every fuzz test in turn, because go test fuzzes one at a time.
fuzz:
	@set -e; grep -r --include='*_test.go' '^func Fuzz' . | sort | \
	sed 's|^\(.*\)/[^/]*_test.go:func \(Fuzz[A-Za-z0-9_]*\)(.*|\1 \2|' | \
	while read -r dir name; do \
		echo "$(GO) test $$dir -fuzz $$name"; \
		$(GO) test "$$dir" -vet=off -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME); \
	done

# All rows of the tables that make test samples, and new random programs and their derivatives, on one rank
# and on several. Such a program depends only on its seed: go test -fuzz would find nothing by mutating it,
# and take ten times as long.
programs:
	$(GO) test ./metal/kernels -count=1 -timeout 0 -run '^($(TABLES))$$' $(TESTFLAGS) -every
	$(GO) test ./primitives -count=1 -timeout 0 -run '^(TestPlacements|TestRowsAreNotCopied|TestContract.*|TestDispatchF8|TestGrouped(Scaled|Affine)MatMul)$$' $(TESTFLAGS) -every
	$(GO) test ./examples/moe_lm -count=1 -timeout 0 -run '^(TestExact|TestZero)$$' $(TESTFLAGS) -every
	$(GO) test ./internal/testing/fuzzprog -count=1 -timeout 0 $(TESTFLAGS) -programs 120
	$(GO) test ./internal/testing/fuzzprog -count=1 -timeout 0 -run '^(TestPlacements|TestPullbacks)$$' $(TESTFLAGS) -programs $(PROGRAMS) -first $(FIRST)

# Training, killed at random moments and resumed.
kills:
	$(GO) test -count=1 -timeout 0 -run '^TestKilled$$' $(TESTFLAGS) ./examples/moe_lm -kills 200

# Training in four processes while ranks are killed, stopped and cut off, disks are full and
# nobody reads the output. It needs root, for cutting a network and filling a disk.
soak:
	$(GO) test -tags soak -count=1 -v -timeout 0 $(TESTFLAGS) ./internal/testing/soak -long $(SOAKTIME)

bench: figures
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

# Memory and communication of plans, in the cases with figures checked by tests.
figures:
	@log=$$(mktemp); $(GO) test -v -count=1 -run '^Test($(FIGURES))$$' . ./vjp ./primitives ./bench/engine ./examples/moe_lm >"$$log"; \
	status=$$?; grep -E '^ *(---|FAIL|[a-z_]+_test.go:)' "$$log"; rm -f "$$log"; exit $$status

# Compares with other libraries, if installed: see bench/README.md.
bench-peers:
	$(GO) run ./bench $(BENCHPEERS)
	$(GO) run ./bench/collectives

# The examples' own tests check their results; this shows them.
examples:
	$(GO) run ./examples/ep_moe
	$(GO) run ./examples/moe_lm -check

clean:
	rm -rf bin out
