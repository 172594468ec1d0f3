# Node 2 of the cluster kafka3, which is started as a whole.
. "$here/services.d/kafka3.sh"
needs=kafka3
nodes=2
dir=$home/2
