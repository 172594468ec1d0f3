# Master a of rocketmq2, which is started as a whole.
. "$here/services.d/rocketmq2.sh"
needs=rocketmq2
nodes=a
home=$state/rocketmq2
dir=$home/a
