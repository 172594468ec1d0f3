package remoting

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"maps"
	"slices"
)

// sign adds who asks, and the proof of it: HMAC-SHA1 of the fields' values, in the
// order of their names, and the body.
func (c *Client) sign(cmd Command) Command {
	if c.cfg.AccessKey == "" {
		return cmd
	}
	fields := make(map[string]string, len(cmd.Fields)+2)
	maps.Copy(fields, cmd.Fields)
	fields["AccessKey"] = c.cfg.AccessKey
	mac := hmac.New(sha1.New, []byte(c.cfg.SecretKey))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		mac.Write([]byte(fields[name]))
	}
	mac.Write(cmd.Body)
	fields["Signature"] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	cmd.Fields = fields
	return cmd
}
