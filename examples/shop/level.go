package shop

// Level is how much of one article there is to be.
type Level struct {
	SKU      string
	Quantity int64
}
