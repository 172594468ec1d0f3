package postgres

import "github.com/settlemq/settle/store/outboxlog"

// textColumn is a nullable column of text, "" where it is NULL. A value that is
// that of the row before is kept: types and topics come again and again.
type textColumn struct {
	string
	in *outboxlog.Memory
}

// ScanBytes implements pgtype.BytesScanner.
func (c *textColumn) ScanBytes(b []byte) error {
	if c.string != string(b) {
		c.string = c.in.Text(b)
	}
	return nil
}

// bytesColumn is a nullable column of bytes.
type bytesColumn struct {
	bytes []byte
	in    *outboxlog.Memory
}

// ScanBytes implements pgtype.BytesScanner.
func (c *bytesColumn) ScanBytes(b []byte) error {
	c.bytes = c.in.Bytes(b)
	return nil
}
