# The name server of rocketmqha, which is started as a whole.
. "$here/services.d/rocketmqha.sh"
needs=rocketmqha
nodes=ns
home=$state/rocketmqha
dir=$home/ns
