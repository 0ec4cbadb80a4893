package tokenizer

import "unicode/utf8"

// alphabet is GPT-2's representation of bytes as printable characters: printable bytes of Latin-1 stand for
// themselves, the others for the characters from U+0100 on, in order. ByteLevel vocabularies use it.
type alphabet struct {
	chars [256]string
	bytes [0x144]int16 // by character; -1 for characters outside the alphabet
}

func newAlphabet() *alphabet {
	a := &alphabet{}
	for i := range a.bytes {
		a.bytes[i] = -1
	}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			r = next
			next++
		}
		a.chars[b] = string(r)
		a.bytes[r] = int16(b)
	}
	return a
}

// encode appends the characters of the bytes of text to out.
func (a *alphabet) encode(out []byte, text string) []byte {
	for i := range len(text) {
		out = append(out, a.chars[text[i]]...)
	}
	return out
}

// decode returns the bytes represented by token. A token with a character outside the alphabet (an added token)
// stands for its own bytes.
func (a *alphabet) decode(token string) string {
	out := make([]byte, 0, len(token))
	for _, r := range token {
		if int(r) >= len(a.bytes) || a.bytes[r] < 0 {
			return token
		}
		out = append(out, byte(a.bytes[r]))
	}
	return string(out)
}

// lossy replaces each maximal invalid part of text by U+FFFD, as decoders of Rust and Python do: a truncated
// character gives one, regardless of the number of its bytes.
func lossy(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	out := make([]byte, 0, len(text)+8)
	for text != "" {
		n := badPrefix(text)
		if n == 0 {
			_, n = utf8.DecodeRuneInString(text)
			out = append(out, text[:n]...)
		} else {
			out = utf8.AppendRune(out, utf8.RuneError)
		}
		text = text[n:]
	}
	return string(out)
}

// badPrefix returns the length of the maximal invalid prefix of text, 1 if its first byte cannot begin a character,
// and 0 if text begins with a complete character.
func badPrefix(text string) int {
	if r, n := utf8.DecodeRuneInString(text); r != utf8.RuneError || n != 1 {
		return 0
	}
	n := 1
	for n < len(text) && n < utf8.UTFMax && unfinished(text[:n+1]) {
		n++
	}
	return n
}

// unfinished reports whether text is the beginning of a character that further bytes could complete.
func unfinished(text string) bool {
	return text != "" && !utf8.FullRuneInString(text)
}

// cutTail returns the number of bytes at the end of text that begin a character which further bytes could complete.
func cutTail(text string) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if utf8.RuneStart(text[len(text)-n]) {
			if unfinished(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
