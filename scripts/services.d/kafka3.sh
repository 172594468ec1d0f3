# A cluster of three nodes of Kafka: topics have three replicas, of which two must have what is acknowledged. Each node
# is a service of its own, too: kill, pause, resume, start, logs and status take kafka3-1, kafka3-2 and kafka3-3.
. "$here/services.d/kafka.sh"
port=${SETTLE_KAFKA3_PORT:-5641}
cluster="1 2 3" nodes="1 2 3"
home=$state/kafka3
node_dir() { echo "$home/$1"; }
node_port() { echo $((port + 3 * ($1 - 1))); }
