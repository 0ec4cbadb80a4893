package hostfile

// MaxFile is the longest file, in bytes, that programs read for this package. A host takes about 200 bytes.
const MaxFile = 16 << 20
