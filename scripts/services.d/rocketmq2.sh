# RocketMQ with two masters: each topic has queues on both, and the keys of one that is down wait. Each node is a service
# of its own, too: kill, pause, resume, start, logs and status take rocketmq2-ns, rocketmq2-a and rocketmq2-b.
. "$here/services.d/rocketmq.sh"
port=${SETTLE_ROCKETMQ2_PORT:-5691}
cluster="ns a b" nodes="ns a b"
home=$state/rocketmq2
