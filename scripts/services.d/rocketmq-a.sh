# Master a of rocketmq, which is started as a whole.
. "$here/services.d/rocketmq.sh"
needs=rocketmq
nodes=a
home=$state/rocketmq
dir=$home/a
