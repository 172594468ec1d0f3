package postgres

import (
	"testing"

	"github.com/settlemq/settle/store/outboxlog"
)

func TestAColumnThatIsNullIsEmptyAndBytesThatAreEmptyAreNot(t *testing.T) {
	var m outboxlog.Memory
	c, p := textColumn{in: &m}, bytesColumn{in: &m}
	for _, v := range []string{"a", "a", "", "b"} {
		if err := c.ScanBytes([]byte(v)); err != nil || c.string != v {
			t.Errorf("%q was read as %q (%v)", v, c.string, err)
		}
	}
	if err := c.ScanBytes(nil); err != nil || c.string != "" {
		t.Errorf("NULL was read as %q (%v)", c.string, err)
	}
	if err := p.ScanBytes([]byte{}); err != nil || p.bytes == nil {
		t.Errorf("an empty payload was read as NULL (%v)", err)
	}
	if err := p.ScanBytes(nil); err != nil || p.bytes != nil {
		t.Errorf("NULL was read as %q (%v)", p.bytes, err)
	}
}
