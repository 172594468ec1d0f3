package remoting

import (
	"encoding/json"
	"errors"
)

// decodeLenient reads JSON as Java's servers write it: numbers that are keys stand
// there without quotes.
func decodeLenient(body []byte, into any) error {
	quoted, err := quoteKeys(body)
	if err != nil {
		return err
	}
	return json.Unmarshal(quoted, into)
}

var errNesting = errors.New("it is nested too deeply, or ends too soon")

// nestedAtMost bounds what is remembered of an answer's nesting.
const nestedAtMost = 64

// quoteKeys puts the keys of objects that are numbers into quotes.
func quoteKeys(body []byte) ([]byte, error) {
	out := make([]byte, 0, len(body)+16)
	var open []byte
	key := false // whether a key may begin here
	for i := 0; i < len(body); i++ {
		c := body[i]
		switch {
		case c == '"':
			end := endOfText(body, i)
			if end < 0 {
				return nil, errNesting
			}
			out = append(out, body[i:end]...)
			i, key = end-1, false
			continue
		case c == '{' || c == '[':
			if len(open) == nestedAtMost {
				return nil, errNesting
			}
			open, key = append(open, c), c == '{'
		case c == '}' || c == ']':
			if len(open) == 0 {
				return nil, errNesting
			}
			open, key = open[:len(open)-1], false
		case c == ',':
			key = len(open) > 0 && open[len(open)-1] == '{'
		case key && (c == '-' || c >= '0' && c <= '9'):
			from := i
			for i < len(body) && (body[i] == '-' || body[i] >= '0' && body[i] <= '9') {
				i++
			}
			out = append(append(append(out, '"'), body[from:i]...), '"')
			i, key = i-1, false
			continue
		}
		out = append(out, c)
	}
	return out, nil
}

// endOfText returns the position behind a string that begins at from, -1 where it
// does not end.
func endOfText(body []byte, from int) int {
	for i := from + 1; i < len(body); i++ {
		switch body[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}
