//go:build !(linux || darwin)

package whole

func own(string) (release func() error, taken bool, err error) {
	return func() error { return nil }, false, nil
}
