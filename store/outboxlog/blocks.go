package outboxlog

// fewestJumps is how many jumps must agree on a block's size: fewer may do so
// by chance.
const fewestJumps = 6

// usualBlocks are sizes of blocks that libraries and people choose.
func usualBlocks() []int64 {
	return []int64{1000, 512, 500, 256, 250, 200, 128, 100, 64, 50, 32, 25, 20, 10}
}

// BlockSize returns the size of the blocks that ids, sorted, are taken in; 1
// when they are given one by one. A sequence that steps, with ids between the
// steps, tells; else jumps that nearly all land at the same place of a block.
func BlockSize(ids []int64, increment, start int64) int64 {
	if increment > 1 {
		for _, id := range ids {
			if (id-start)%increment != 0 {
				return increment
			}
		}
		return 1
	}
	var landed []int64
	for i := 1; i < len(ids); i++ {
		if ids[i] != ids[i-1]+1 {
			landed = append(landed, ids[i])
		}
	}
	if len(landed) < fewestJumps || len(landed) == len(ids)-1 { // the latter: every id jumps, which is a step and no block
		return 1
	}
	for _, block := range usualBlocks() {
		places := map[int64]int{}
		for _, id := range landed {
			places[id%block]++
			if places[id%block]*10 >= len(landed)*9 {
				return block
			}
		}
	}
	return 1
}
