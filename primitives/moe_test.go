package primitives_test

func moeRows() []row {
	return []row{}
}
