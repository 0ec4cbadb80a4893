package quoted

import (
	"fmt"
	"strings"
)

// OneOf is a flag, or another setting, whose value is one of a list.
type OneOf[T any] struct {
	To *T // has the default value
	Of []T
}

// Set sets the value to the element of the list that prints as text.
func (o OneOf[T]) Set(text string) error {
	names := o.Names()
	for i, name := range names {
		if name == text {
			*o.To = o.Of[i]
			return nil
		}
	}
	last := len(names) - 1
	return fmt.Errorf("want %s or %s", strings.Join(names[:last], ", "), names[last])
}

// String returns the value as text.
func (o OneOf[T]) String() string {
	if o.To == nil { // package flag asks the zero value
		return ""
	}
	return fmt.Sprint(*o.To)
}

// Names returns the list as texts.
func (o OneOf[T]) Names() []string {
	var names []string
	for _, x := range o.Of {
		names = append(names, fmt.Sprint(x))
	}
	return names
}
