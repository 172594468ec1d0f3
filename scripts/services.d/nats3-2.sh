# Server 2 of the cluster nats3, which is started as a whole.
. "$here/services.d/nats3.sh"
needs=nats3
nodes=2
dir=$home/2
