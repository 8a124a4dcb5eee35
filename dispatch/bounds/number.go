package bounds

import "bytes"

// Number checks the text of one valid JSON number against NumberLength and NumberExponent. Beyond them, exact
// arithmetic costs memory and time out of proportion to the text.
func Number(text []byte) error {
	if err := NumberLength.Check(int64(len(text))); err != nil {
		return err
	}
	at := bytes.IndexAny(text, "eE")
	if at < 0 {
		return nil
	}
	exponent := int64(0)
	for _, digit := range bytes.TrimLeft(text[at+1:], "+-") {
		if exponent = 10*exponent + int64(digit-'0'); exponent > NumberExponent.Most {
			return NumberExponent.Refuse()
		}
	}
	return nil
}

// Numbers checks every number of a JSON text, in time linear in its length. In a text that is not JSON it checks
// everything outside of strings that looks like a number.
func Numbers(text []byte) error {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			i = afterString(text, i)
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(text) && inNumber(text[end]) {
				end++
			}
			if err := Number(text[i:end]); err != nil {
				return err
			}
			i = end
		default:
			i++
		}
	}
	return nil
}

func inNumber(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

// afterString returns the index after the string that begins at i.
func afterString(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}
