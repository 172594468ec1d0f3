# The slave of rocketmqha, which is started as a whole.
. "$here/services.d/rocketmqha.sh"
needs=rocketmqha
nodes=s
home=$state/rocketmqha
dir=$home/s
