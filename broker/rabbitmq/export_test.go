package rabbitmq

// QueuesForTest names all queues of a topic's groups.
func QueuesForTest(topic string, groups []string, partitions int) []string {
	var names []string
	for _, g := range groups {
		names = append(names, deadName(topic, g), membersName(topic, g))
		for n := range partitions {
			names = append(names, queueName(topic, g, n))
		}
	}
	return names
}

// LadderForTest names the queues and exchanges of a ladder.
func LadderForTest(queue string, steps int) (queues, exchanges []string) {
	l := ladder{queue: queue}
	for n := range steps {
		queues = append(queues, l.step(n+1))
	}
	return append(queues, l.queue, l.dead()), []string{l.rejected(), l.choice(), l.first(), l.back()}
}
