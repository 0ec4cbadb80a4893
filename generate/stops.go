package generate

import "strings"

// Stops passes text on, up to the first of some texts at which to stop. What may be the beginning of one of them is
// held back until it is known.
type Stops struct {
	texts []string
	held  string
	ended bool
}

// NewStops returns a Stops for texts that are not empty.
func NewStops(texts []string) *Stops { return &Stops{texts: texts} }

// Push returns what can be passed on of the text so far, and whether one of the texts has come. After that there is
// nothing more to pass on.
func (s *Stops) Push(text string) (pass string, stopped bool) {
	if s.ended {
		return "", true
	}
	s.held += text
	first := -1
	for _, stop := range s.texts {
		if i := strings.Index(s.held, stop); i >= 0 && (first < 0 || i < first) {
			first = i
		}
	}
	if first >= 0 {
		pass, s.held, s.ended = s.held[:first], "", true
		return pass, true
	}
	keep := 0
	for _, stop := range s.texts {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				keep = n
				break
			}
		}
	}
	pass, s.held = s.held[:len(s.held)-keep], s.held[len(s.held)-keep:]
	return pass, false
}

// Rest returns what is held back, at the end of the text.
func (s *Stops) Rest() string {
	rest := s.held
	s.held = ""
	return rest
}
