// The generator of ../asm_*_amd64.s, a module of its own so that users of
// gomoe do not depend on avo.
module github.com/gomoe/gomoe/internal/kernel/asm

go 1.26

require github.com/mmcloughlin/avo v0.6.0

require (
	golang.org/x/mod v0.35.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
	golang.org/x/tools v0.44.0 // indirect
)
