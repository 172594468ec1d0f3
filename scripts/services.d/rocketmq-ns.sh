# The name server of rocketmq, which is started as a whole.
. "$here/services.d/rocketmq.sh"
needs=rocketmq
nodes=ns
home=$state/rocketmq
dir=$home/ns
