package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// fit makes an id or a key, which a foreign producer may have chosen, one that
// is found again in a list: those are JSON, which has no other text than UTF-8.
// Different ones stay different, and the same one always becomes the same; the
// record itself is kept as it was found.
func fit(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return strings.ToValidUTF8(s, "\uFFFD") + "…" + hex.EncodeToString(sum[:])
}
