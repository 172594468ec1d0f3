package main

func rawToRabbitMQ() contender {
	return rawTo(rabbitmqName, "raw amqp091-go", func(c conditions) (rawPublisher, error) { return dialAMQP(c.broker, drainTopic, toRabbitMQWindow) })
}

func (c *confirming) flush(acknowledged func(id string) error) error {
	return c.settle(0, acknowledged)
}

var _ rawPublisher = (*confirming)(nil)
