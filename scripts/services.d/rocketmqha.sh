# RocketMQ with a master and its slave: what is acknowledged is on both (SYNC_MASTER). Each node is a service of its own,
# too: kill, pause, resume, start, logs and status take rocketmqha-ns, rocketmqha-a and rocketmqha-s.
. "$here/services.d/rocketmq.sh"
port=${SETTLE_ROCKETMQHA_PORT:-5701}
cluster="ns a s" nodes="ns a s"
home=$state/rocketmqha
