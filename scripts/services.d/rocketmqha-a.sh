# Master a of rocketmqha, which is started as a whole.
. "$here/services.d/rocketmqha.sh"
needs=rocketmqha
nodes=a
home=$state/rocketmqha
dir=$home/a
