package settle

import (
	"encoding/binary"
	"math/bits"
)

// maxNesting is how deep encoding/json lets values nest; readers of the
// envelope use it.
const maxNesting = 10000

// validJSON reports what json.Valid does, several times as fast: a relay asks
// it of every event.
func validJSON(b []byte) bool {
	i := skipValue(b, 0, 0)
	return i >= 0 && skipSpace(b, i) == len(b)
}

// The functions below return where what begins at i ends, or -1 where it is not
// valid.

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

func skipValue(b []byte, i, depth int) int {
	if i = skipSpace(b, i); i == len(b) {
		return -1
	}
	switch c := b[i]; {
	case c == '"':
		return skipString(b, i+1)
	case c == '{':
		return skipObject(b, i+1, depth+1)
	case c == '[':
		return skipArray(b, i+1, depth+1)
	case c == '-' || '0' <= c && c <= '9':
		return skipNumber(b, i)
	case c == 't':
		return skipWord(b, i, "true")
	case c == 'f':
		return skipWord(b, i, "false")
	case c == 'n':
		return skipWord(b, i, "null")
	}
	return -1
}

func skipWord(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func skipObject(b []byte, i, depth int) int {
	if depth > maxNesting {
		return -1
	}
	if i = skipSpace(b, i); i < len(b) && b[i] == '}' {
		return i + 1
	}
	for i < len(b) && b[i] == '"' {
		if i = skipString(b, i+1); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i == len(b) || b[i] != ':' {
			return -1
		}
		if i = skipValue(b, i+1, depth); i < 0 {
			return -1
		}
		switch i = skipSpace(b, i); {
		case i == len(b):
			return -1
		case b[i] == '}':
			return i + 1
		case b[i] != ',':
			return -1
		}
		i = skipSpace(b, i+1)
	}
	return -1
}

func skipArray(b []byte, i, depth int) int {
	if depth > maxNesting {
		return -1
	}
	if i = skipSpace(b, i); i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = skipValue(b, i, depth); i < 0 {
			return -1
		}
		switch i = skipSpace(b, i); {
		case i == len(b):
			return -1
		case b[i] == ']':
			return i + 1
		case b[i] != ',':
			return -1
		}
		i++
	}
}

func skipNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i == len(b):
		return -1
	case b[i] == '0':
		i++
	default:
		if i = skipDigits(b, i); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return skipDigits(b, i)
	}
	return i
}

// skipDigits wants one digit at least.
func skipDigits(b []byte, i int) int {
	first := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	if i == first {
		return -1
	}
	return i
}

// In a word of eight bytes, ones has 1 in each and tops the highest bit of each.
const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// skipString begins behind the quotation mark. Eight bytes are looked at at
// once: of a word with a byte that is below a space, a quotation mark or a
// backslash, the lowest bit that is left marks the first of them.
func skipString(b []byte, i int) int {
	for {
		for len(b)-i >= 8 {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, slash := w^ones*'"', w^ones*'\\'
			found := ((w - ones*' ') | (quote - ones) | (slash - ones)) &^ w & tops
			if found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
			i += 8
		}
		for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
			i++
		}
		if i == len(b) || b[i] < ' ' {
			return -1
		}
		if b[i] == '"' {
			return i + 1
		}
		if i = skipEscape(b, i+1); i < 0 {
			return -1
		}
	}
}

func skipEscape(b []byte, i int) int {
	if i == len(b) {
		return -1
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if len(b)-i < 5 {
			return -1
		}
		for _, c := range b[i+1 : i+5] {
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return -1
			}
		}
		return i + 5
	}
	return -1
}

// plain reports whether s is printable ASCII throughout, as nearly every
// identifier is. No byte of such a word borrows from or carries into another.
func plain(s string) bool {
	for ; len(s) >= 8; s = s[8:] {
		w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		if (w|(w+ones)|(w-ones*' '))&tops != 0 {
			return false
		}
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
