package msl

// closing returns the index of the token closing the bracket at i, -1 if there is none. "[[" is
// closed by the second of its two "]". A "<" is taken for the beginning of a template's arguments,
// which may contain other brackets; the result is -1 if it turns out to be a comparison.
func closing(ts []token, i int) int {
	open := ts[i].text
	if open == "[[" || open == "[" {
		depth := 0
		for j := i; j < len(ts); j++ {
			switch ts[j].text {
			case "[[":
				depth += 2
			case "[":
				depth++
			case "]":
				if depth--; depth == 0 {
					return j
				}
			}
		}
		return -1
	}
	shut := map[string]string{"(": ")", "{": "}", "<": ">"}[open]
	if shut == "" {
		return -1
	}
	depth := 0
	for j := i; j < len(ts); j++ {
		switch t := ts[j].text; {
		case t == open:
			depth++
		case t == shut:
			if depth--; depth == 0 {
				return j
			}
		case open == "<" && (t == "(" || t == "[" || t == "{" || t == "[["):
			if j = closing(ts, j); j < 0 {
				return -1
			}
		case open == "<" && (t == ";" || t == "}" || t == ")"):
			return -1 // a comparison
		}
	}
	return -1
}

// opening returns the index of the token open matching the token shut at the end of ts, -1 if there
// is none.
func opening(ts []token, open, shut string) int {
	depth := 0
	for j := len(ts) - 1; j >= 0; j-- {
		switch ts[j].text {
		case shut:
			depth++
		case open:
			if depth--; depth == 0 {
				return j
			}
		}
	}
	return -1
}
