package primitives_test

func composedRows() []row {
	return []row{}
}
