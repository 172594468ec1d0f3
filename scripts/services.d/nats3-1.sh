# Server 1 of the cluster nats3, which is started as a whole.
. "$here/services.d/nats3.sh"
needs=nats3
nodes=1
dir=$home/1
