# Node 1 of the cluster rabbitmq3, which is started as a whole.
. "$here/services.d/rabbitmq3.sh"
needs=rabbitmq3
nodes=1
dir=$home/1
