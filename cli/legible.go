package cli

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxLegible bounds what one field may take of a line.
const maxLegible = 300

// legible makes one line of text that came from elsewhere: a handler's error,
// a foreign record's key. What a terminal would obey or hide is shown as an
// escape, what is below the first line or past the bound as an ellipsis.
func legible(text string) string {
	first, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if len(first) > maxLegible {
		first, more = strings.ToValidUTF8(first[:maxLegible], ""), true
	}
	first = escaped(first)
	if more {
		first += " …"
	}
	return first
}

// legibleLines keeps all of text and its lines, each but the first behind
// indent.
func legibleLines(text, indent string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = escaped(strings.ReplaceAll(line, "\t", "    "))
	}
	return strings.Join(lines, "\n"+indent)
}

// legiblePayload indents JSON, a line for each field, and quotes what is none.
func legiblePayload(body []byte, indent string) string {
	var lines bytes.Buffer
	if json.Indent(&lines, body, "", "  ") != nil {
		return strconv.Quote(string(body))
	}
	return legibleLines(lines.String(), indent)
}

func escaped(line string) string {
	var b strings.Builder
	for len(line) > 0 {
		r, size := utf8.DecodeRuneInString(line)
		if strconv.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteString(line[:size])
		} else {
			quoted := strconv.Quote(line[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		line = line[size:]
	}
	return b.String()
}
