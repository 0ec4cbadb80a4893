package jaccl

// SetSizes makes a communicator over a link send more than small bytes in pieces, of
// which stage bytes are on their way at a time.
func SetSizes(c Communicator, small, stage int) { c.(*engine).sizes = sizes{small, stage} }
