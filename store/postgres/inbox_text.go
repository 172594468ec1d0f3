package postgres

import (
	"crypto/sha256"
	"encoding/hex"
)

// maxIndexed bounds texts that are indexed: an index takes no entry of more
// than 2,700 bytes, and some have two of them.
const maxIndexed = 800

// fit makes an id or a key, which a foreign producer may have chosen, fit for a
// column that is indexed. Different ones stay different, and the same one always
// becomes the same; the record itself is kept as it was found.
func fit(s string) string {
	kept := clean(s)
	if len(s) <= maxIndexed && kept == s {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return clean(s[:min(len(s), maxIndexed-70)]) + "…" + hex.EncodeToString(sum[:])
}
