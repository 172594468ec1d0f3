# Node 1 of the cluster kafka3, which is started as a whole.
. "$here/services.d/kafka3.sh"
needs=kafka3
nodes=1
dir=$home/1
