package graph

import (
	"regexp"
	"strings"
	"testing"
)

// Each production of the grammar except the first is used, and each that is used
// exists.
func TestGrammar(t *testing.T) {
	rules, _, _ := strings.Cut(Grammar, "\n\n")
	rules = strings.Replace(rules, "a double-quoted string of Go", "", 1)
	defined, used := map[string]bool{}, map[string]bool{"file": true, "newline": true}
	for _, m := range regexp.MustCompile(`(?m)^(\w+) +=`).FindAllStringSubmatch(rules, -1) {
		defined[m[1]] = true
	}
	defined["newline"] = true // is described below the productions
	rules = regexp.MustCompile(`(?m)^\w+ +=|"[^"]*"`).ReplaceAllString(rules, "")
	for _, w := range regexp.MustCompile(`\w+`).FindAllString(rules, -1) {
		used[w] = true
	}
	for w := range used {
		if !defined[w] {
			t.Errorf("%s has no production", w)
		}
	}
	for w := range defined {
		if !used[w] {
			t.Errorf("%s is used nowhere", w)
		}
	}
	for d := Bool; d <= F64; d++ {
		if !strings.Contains(Grammar, `"`+d.String()+`"`) {
			t.Errorf("element type %s is missing", d)
		}
	}
}
