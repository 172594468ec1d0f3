# Node 3 of the cluster rabbitmq3, which is started as a whole.
. "$here/services.d/rabbitmq3.sh"
needs=rabbitmq3
nodes=3
dir=$home/3
