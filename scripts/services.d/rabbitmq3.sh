# A cluster of three nodes of RabbitMQ. Each node is a service of its own, too: kill, pause, resume, start, logs and
# status take rabbitmq3-1, rabbitmq3-2 and rabbitmq3-3.
. "$here/services.d/rabbitmq.sh"
port=${SETTLE_RABBITMQ3_PORT:-5671}
cluster="1 2 3" nodes="1 2 3"
home=$state/rabbitmq3
node_dir() { echo "$home/$1"; }
node_port() { echo $((port + 5 * ($1 - 1))); }
