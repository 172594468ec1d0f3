# The name server of rocketmq2, which is started as a whole.
. "$here/services.d/rocketmq2.sh"
needs=rocketmq2
nodes=ns
home=$state/rocketmq2
dir=$home/ns
