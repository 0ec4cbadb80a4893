package msl

// closing returns the index of the token that closes the bracket at i, -1 if
// none does. "[[" is closed by the second of its two "]"; for "<" it is a
// template's arguments that are looked for, so other brackets in it nest.
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

// opening returns the index of the token that opens the bracket which the
// last of ts closes, -1 if none does.
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
