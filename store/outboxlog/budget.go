package outboxlog

// Budget is what a page may still take. A first row is always taken, or a
// large one would stop the reader for ever.
type Budget struct {
	Rows, Bytes int
	// Others is how many rows of other lanes it may take besides.
	Others int
	some   bool
}

// Limit is how many rows must be read to know whether the page is cut: one more
// than there is room for.
func (b *Budget) Limit() int { return b.Rows + b.Others + 1 }

// Takes tells whether a row of this size fits, and counts it if so.
func (b *Budget) Takes(size int) bool {
	if b.some && (b.Rows <= 0 || b.Bytes < size) {
		return false
	}
	b.some = true
	b.Rows--
	b.Bytes -= size
	return true
}

// TakesOther tells whether one more row of another lane fits, and counts it if
// so.
func (b *Budget) TakesOther() bool {
	b.Others--
	return b.Others >= 0
}
