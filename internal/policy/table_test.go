package policy

const module = "github.com/gomoe/gomoe"

// anything may be imported by those who put everything together.
const anything = "*"

// imports says which packages of the module each package may import, in its
// files that are not tests. A path ending in /... stands for all below it, one
// ending in /* for the packages of that folder.
//
// Data flows graph → primitives → vjp → sharding → lowering → runtime. Imports
// do not follow it, because a primitive's rules mention types of the engines;
// so the engines know no primitive, and the runtime knows no engine's rules.
func imports() map[string][]string {
	return map[string][]string{
		"graph":                      {"internal/near"},
		"internal/near":              {},
		"tokenizer":                  {"internal/quoted", "tokenizer/internal/jinja", "tokenizer/internal/pattern"},
		"tokenizer/internal/pattern": {},
		"tokenizer/internal/jinja":   {},
		"ep":                         {},
		"data/text":                  {"internal/memory"},
		"internal/testing/faults":    {anything},
		"internal/testing/fleet":     {},
		"internal/testing/machines":  {anything},
		"train/report":               {"internal/whole"},
		"train/picture":              {"train/report"},
		"internal/whole":             {},
		"internal/interrupt":         {},
		"internal/policy":            {},
		"internal/tracefile":         {"runtime"},
		"internal/half":              {},
		"internal/frame":             {},
		"internal/wait":              {},
		"internal/memory":            {},
		"internal/openfiles":         {},
		"internal/quoted":            {},
		"internal/infile":            {},
		"internal/strictjson":        {},
		"internal/pages":             {},
		"internal/testing/advised":   {},
		"internal/testing/amx":       {},
		"internal/testing/cutoff":    {},
		"internal/reduce":            {"graph", "array", "internal/kernel/vector"},
		"internal/dynlib":            {},
		"quant":                      {"graph"},
		"array":                      {"graph", "internal/half", "internal/whole", "quant"},
		"data":                       {"array", "checkpoint/safetensors", "checkpoint/tensor", "graph", "internal/whole", "primitives", "runtime", "tokenizer"},
		"train":                      {"", "array", "checkpoint/safetensors", "checkpoint/tensor", "graph", "internal/memory", "internal/near", "internal/whole", "lowering/ops", "nn", "primitives", "runtime", "sharding", "train/report", "train/snapshot", "vjp", "world"},
		"pretrain":                   {"", "array", "checkpoint", "checkpoint/safetensors", "checkpoint/tensor", "data", "data/text", "graph", "internal/near", "internal/whole", "models", "nn", "sharding", "tokenizer", "train", "train/lm", "train/report", "train/snapshot", "world"},
		"train/lm":                   {"", "array", "checkpoint", "checkpoint/parts", "checkpoint/peft", "checkpoint/safetensors", "checkpoint/tensor", "data", "data/text", "graph", "internal/interrupt", "internal/memory", "internal/whole", "lowering", "nn", "primitives", "runtime", "sharding", "tokenizer", "train", "train/report", "train/snapshot", "world"},
		"evaluate":                   {"", "array", "checkpoint", "ep", "graph", "models", "nn", "primitives", "runtime"},
		"finetune":                   {"", "array", "checkpoint", "checkpoint/parts", "checkpoint/peft", "checkpoint/tensor", "convert", "data", "graph", "internal/whole", "models", "nn", "runtime", "tokenizer", "train", "train/lm", "train/report", "train/snapshot", "world"},
		"convert":                    {"array", "checkpoint", "checkpoint/gguf", "checkpoint/safetensors", "checkpoint/tensor", "graph", "internal/whole", "models", "nn", "quant", "runtime", "tokenizer"},
		"train/snapshot":             {"array", "checkpoint/parts", "checkpoint/safetensors", "checkpoint/tensor", "graph", "internal/whole", "runtime", "sharding", "world"},
		"generate":                   {"", "array", "checkpoint", "checkpoint/safetensors", "checkpoint/tensor", "collective", "ep", "graph", "internal/kernel/vector", "internal/memory", "internal/whole", "jaccl", "lowering", "models", "nn", "primitives", "runtime", "tokenizer", "world"},
		"serve":                      {"generate", "tokenizer"},
		"nn":                         {"ep", "graph", "primitives", "sharding", "vjp"},
		"models":                     {"array", "checkpoint", "checkpoint/peft", "checkpoint/tensor", "graph", "internal/near", "nn", "primitives", "quant", "runtime"},
		"checkpoint":                 {"checkpoint/gguf", "checkpoint/parts", "checkpoint/safetensors", "checkpoint/tensor", "internal/near", "sharding"},
		"checkpoint/gguf":            {"checkpoint/tensor", "graph", "internal/whole"},
		"checkpoint/parts":           {"array", "checkpoint/safetensors", "checkpoint/tensor", "graph", "internal/near", "internal/whole"},
		"checkpoint/peft":            {"array", "checkpoint/parts", "checkpoint/safetensors", "checkpoint/tensor", "graph", "internal/whole", "nn"},
		"checkpoint/safetensors":     {"checkpoint/tensor", "graph", "internal/whole"},
		"checkpoint/tensor":          {"array", "graph"},
		"internal/kernel":            {"internal/half"},
		"internal/kernel/pack":       {"internal/kernel"},
		"internal/kernel/vector":     {"internal/kernel"},
		"internal/kernel/random":     {"array", "internal/kernel"},
		"internal/kernel/norm":       {"internal/kernel", "internal/kernel/vector"},
		"internal/kernel/blocks":     {"graph", "internal/kernel", "quant"},
		"internal/kernel/gemm":       {"array", "internal/half", "internal/kernel", "internal/kernel/pack", "internal/kernel/vector"},
		"internal/kernel/attention":  {"array", "graph", "quant", "internal/half", "internal/kernel", "internal/kernel/gemm", "internal/kernel/pack", "internal/kernel/vector"},
		"internal/kernel/depthwise":  {"internal/kernel", "internal/kernel/vector"},
		"internal/kernel/recurrence": {"internal/kernel", "internal/kernel/gemm", "internal/kernel/vector"},
		"internal/testing/numbers":   {"internal/kernel"},
		"vjp":                        {"graph", "array"},
		"sharding":                   {"ep", "graph", "internal/near"},
		"lowering":                   {"graph", "array", "sharding", "collective", "exec", "internal/kernel/vector", "internal/memory", "lowering/ops"},
		"lowering/ops":               {},
		"jaccl":                      {"collective"},
		"jaccl/jaccltest":            {"graph", "collective", "jaccl", "jaccl/engine", "jaccl/link"},
		"jaccl/job/meet":             {"internal/openfiles", "internal/frame", "jaccl/job/hostfile", "jaccl/link"},
		"jaccl/job/watch":            {"graph", "collective", "internal/frame", "jaccl/link"},
		"jaccl/link/*":               {"internal/dynlib", "internal/frame", "internal/wait", "jaccl", "jaccl/job/environ", "jaccl/job/hostfile", "jaccl/job/meet", "jaccl/link", "jaccl/rdma"},
		"jaccl/mlx/ring":             {"graph", "collective", "internal/reduce", "jaccl", "jaccl/job/hostfile", "jaccl/link", "jaccl/mlx/headless"},
		"jaccl/job/hostfile":         {},
		"jaccl/job/environ":          {"internal/whole", "jaccl/job/hostfile"},
		"jaccl/engine":               {"graph", "collective", "internal/reduce", "jaccl", "jaccl/link"},
		"jaccl/link":                 {"collective", "jaccl"},
		"jaccl/mlx/mesh":             {"graph", "collective", "internal/reduce", "internal/wait", "jaccl", "jaccl/job/hostfile", "jaccl/link", "jaccl/mlx/headless", "jaccl/rdma"},
		"jaccl/rdma":                 {"internal/dynlib", "internal/wait", "jaccl/job/hostfile", "jaccl/link"},
		"jaccl/rdma/rdmatest":        {"jaccl/job/hostfile"},
		"jaccl/mlx/headless":         {"graph", "collective", "internal/reduce", "jaccl"},
		"internal/measure":           {"graph", "collective", "jaccl"},
		"internal/flight":            {"collective", "internal/whole", "jaccl"},
		"internal/launch":            {"internal/openfiles", "jaccl/job/environ", "jaccl/job/hostfile", "world"},
		"runtime":                    {"graph", "array", "sharding", "collective", "exec", "internal/kernel", "internal/kernel/gemm", "internal/pages", "internal/whole", "lowering"},
		"metal":                      {"array", "lowering", "metal/counts", "metal/internal/emu", "metal/internal/standin", "metal/kernels", "metal/mtl", "runtime"},
		"metal/kernels":              {"graph", "array", "sharding", "exec", "lowering", "lowering/ops", "primitives"}, // the primitive of an instruction says how it is launched
		"metal/mtl":                  {"internal/dynlib"},
		"metal/internal/msl":         {},
		"metal/counts":               {},
		"metal/internal/emu":         {"metal/counts", "metal/internal/msl"},
		"metal/internal/standin":     {"metal/counts", "metal/internal/emu"},
		"metal/internal/clangtest":   {"metal/internal/emu"},
		"metal/metaltest":            {anything},
		"metal/measure":              {"graph", "array", "sharding", "lowering", "lowering/ops", "", "metal/counts", "metal/kernels", "runtime"},
		"primitives":                 {"graph", "array", "vjp", "sharding", "collective", "exec", "lowering", "lowering/ops", "ep", "internal/kernel", "internal/kernel/attention", "internal/kernel/blocks", "internal/kernel/depthwise", "internal/kernel/gemm", "internal/kernel/norm", "internal/kernel/pack", "internal/kernel/random", "internal/kernel/recurrence", "internal/kernel/vector", "internal/work", "quant"},
		"internal/testing/fuzzprog":  {anything},
		"internal/work":              {"array", "exec", "internal/kernel/pack"},
		"internal/optimize":          {"graph", "array", "primitives"},          // between graph and the engines, which know no primitive
		"internal/exact":             {"ep", "graph", "primitives", "sharding"}, // before placement, which it asks on another mesh
		"internal/testing/late":      {"graph", "array", "exec", "lowering", "runtime"},
		"internal/testing/toy":       {"graph", "array", "sharding", "collective", "exec", "lowering", "jaccl", "jaccl/engine", "runtime"},
		"world":                      {"graph", "sharding", "collective", "internal/flight", "internal/openfiles", "jaccl", "jaccl/engine", "jaccl/job/environ", "jaccl/job/hostfile", "jaccl/job/meet", "jaccl/job/watch", "jaccl/link", "jaccl/link/*", "jaccl/mlx/mesh", "jaccl/mlx/ring", "jaccl/rdma"},
		"":                           {"graph", "array", "ep", "vjp", "sharding", "collective", "lowering", "lowering/ops", "internal/device", "internal/exact", "internal/kernel", "internal/memory", "internal/optimize", "metal/kernels", "primitives", "runtime", "world"},
		"internal/device":            {"metal", "runtime"},
		"exec":                       {"graph", "array", "sharding", "collective", "internal/kernel", "internal/pages"},
		"collective":                 {"graph"},
		"cmd/...":                    {anything},
		"examples/...":               {anything},
		"bench":                      {anything},
		"bench/...":                  {anything},
		"internal/policy/size":       {},
	}
}

// everywhere lists packages that every package may import: those through which all of them take in what comes from outside.
func everywhere() []string {
	return []string{"internal/infile", "internal/quoted", "internal/strictjson"}
}

// drawing lists the packages that draw pictures.
func drawing() []string {
	return []string{"bench", "internal/measure", "metal/measure", "train/picture"}
}

// testSupport lists packages that only tests may import.
func testSupport() []string {
	return []string{"internal/testing/advised", "internal/testing/amx", "internal/testing/toy", "internal/testing/fleet", "internal/testing/faults", "internal/testing/machines", "internal/testing/fuzzprog", "internal/policy", "jaccl/jaccltest", "jaccl/rdma/rdmatest", "metal/internal/clangtest", "metal/internal/machine", "metal/metaltest", "internal/testing/late", "internal/testing/numbers"}
}

// readOnly lists package variables that are tables, by package and name, with
// the reason why they are no functions or constants. Nobody writes to them.
func readOnly() map[string]string {
	const color = "a color, which is a struct; those are no constants"
	return map[string]string{
		"array.e4m3Values":           "the values of the 256 codes, looked up for every element",
		"array.e5m2Values":           "the values of the 256 codes, looked up for every element",
		"primitives.elementwiseRows": "the table of elementwise functions; arrays are no constants",
		"train/picture.rawColor":     color,
		"train/picture.smoothColor":  color,
		"train/picture.heldColor":    color,
		"train/picture.unigramColor": color,
		"train/picture.badColor":     color,
		"train/picture.gridColor":    color,

		"metal.ErrNoMetal":    "an error that callers compare with, the driver's",
		"metal.ErrNoCompiler": "an error that callers compare with, of an internal package",

		"jaccl/rdma/rdmatest.shared": "a sync.OnceValues: the library that the tests of a process share",

		"jaccl/jaccltest.names": "names of the operations by number; arrays are no constants",
		"jaccl/jaccltest.f16":   "all finite numbers of the type, made once for many conversions",
		"jaccl/jaccltest.bf16":  "all finite numbers of the type, made once for many conversions",

		"internal/kernel/gemm.workspaces32":     "a sync.Pool: memory for products, on whose contents no result depends",
		"internal/kernel/gemm.workspaces64":     "a sync.Pool: memory for products, on whose contents no result depends",
		"internal/half.best":                    "a sync.OnceValue: which instructions the processor has, asked once as that is slow; no result depends on it",
		"internal/kernel/gemm.halfWorkspaces":   "a sync.Pool: memory for products, on whose contents no result depends",
		"internal/kernel/gemm.spaces":           "a sync.Pool: memory for fused products, on whose contents no result depends",
		"internal/kernel.selection":             "a sync.OnceValues: which kernels the processor and GOMOE_KERNELS give, read once so that all products of a process have the same bits",
		"internal/kernel/attention.attenders32": "a sync.Pool: memory for attention, on whose contents no result depends",
		"internal/kernel/attention.attenders64": "a sync.Pool: memory for attention, on whose contents no result depends",
		"internal/kernel/blocks.selected":       "the functions of the kernels that are selected, looked up once",
		"generate.rooms":                        "a sync.Pool: memory for the weights of tokens, on whose contents no result depends",
		"internal/kernel/blocks.panelWorks":     "a sync.Pool: memory for products, on whose contents no result depends",
		"internal/kernel/blocks.quantProducts":  "a sync.Pool: memory for products, on whose contents no result depends",
		"internal/kernel/blocks.stripWorks":     "a sync.Pool: memory for products, on whose contents no result depends",
		"internal/kernel/gemm.selected":         "the functions of the kernels that are selected, looked up once",
		"internal/kernel/norm.selected":         "the functions of the kernels that are selected, looked up once",
		"internal/kernel/pack.selected":         "the functions of the kernels that are selected, looked up once",
		"internal/kernel/random.selected":       "the functions of the kernels that are selected, looked up once",
		"internal/kernel/vector.selected":       "the functions of the kernels that are selected, looked up once",
		"metal/kernels.expressions":             "a sync.OnceValue: the table of elementwise operations, which is made once and never changed",

		"internal/strictjson.options": "a sync.OnceValue: the rules of all texts, made once, as each text of a header with 50,000 tensors asks and their functions are cached",

		"tokenizer/internal/pattern.properties": "a sync.OnceValue: the 400 names of Unicode's tables in the form compared, asked for every class of a pattern",
		"tokenizer/internal/pattern.wordRunes":  "a sync.OnceValue: the ranges of \\w, joined once, as every escape of a pattern is compared with them",

		"quant.iq2Grid": "the 256 vectors of a format; arrays are no constants",
		"quant.iq3Grid": "the 256 vectors of a format; arrays are no constants",

		"graph.dtypes":                  "names and sizes of element types, asked for every element type printed; arrays are no constants",
		"graph.helpers":                 "an atomic.Pointer: the functions that call graph.Helper, which is seen when they do; nothing but positions depends on it",
		"graph.dtypeType":               "a reflect.Type; those are no constants",
		"graph.programType":             "a reflect.Type; those are no constants",
		"metal/kernels.serving":         "a sync.OnceValue: the kernels by name, made once, as that takes 500 allocations and every instruction of a plan asks",
		"metal/metaltest.shared":        "a sync.OnceValue: the libraries that the tests of a process load once",
		"metal/internal/standin.shared": "a sync.OnceValues: the function that C calls and the locks that all stand-ins of a process share, as purego frees no callbacks",
	}
}
