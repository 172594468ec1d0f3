package settle

// PartitionOf returns the partition, from 0 to n-1, that the records of key
// go to on brokers that leave the choice to us: FNV-1a of the key's bytes, 32
// bits, modulo n. A producer in any language that computes the same keeps the
// order of its keys. Changing n of a topic in use would lose it.
func PartitionOf(key string, n int) int {
	const offset, prime = 2166136261, 16777619
	h := uint32(offset)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * prime
	}
	return int(h % uint32(max(n, 1)))
}
