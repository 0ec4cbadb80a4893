package primitives_test

func randomRows() []row {
	return []row{}
}
