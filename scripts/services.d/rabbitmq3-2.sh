# Node 2 of the cluster rabbitmq3, which is started as a whole.
. "$here/services.d/rabbitmq3.sh"
needs=rabbitmq3
nodes=2
dir=$home/2
