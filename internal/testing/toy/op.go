package toy

// Op is the operation of a test's own kernel, by its name.
type Op string

func (o Op) String() string { return string(o) }
