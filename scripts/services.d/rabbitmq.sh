# RabbitMQ (one node), Debian's; root installs it when there is none. Beside AMQP it has the management API, one port
# higher, with the same user, and TLS two ports higher: the authority that signed its certificate is "ca.pem" in the
# folder. The services rabbitmq3 and rabbitmq3-1 to rabbitmq3-3 are a cluster of three, made with the same functions.
port=${SETTLE_RABBITMQ_PORT:-5661}
# Numbers of the nodes of this cluster, and of it those that this service is.
cluster=0 nodes=0
# What the nodes share, and where each has its own.
home=$dir
node_dir() { echo "$dir/node"; }
node_port() { echo "$port"; }
# The daemon by which nodes find each other belongs to one folder of services only.
names_port() { echo $((port + 4)); }

tools=/usr/lib/rabbitmq/bin

install_server() {
  if [ -x $tools/rabbitmq-server ] && command -v openssl >/dev/null; then return; fi
  install "RabbitMQ is not installed: no $tools/rabbitmq-server, or no openssl" rabbitmq-server openssl
}

# make_home makes the password, the nodes' shared cookie and the certificates. The password is written last.
make_home() {
  if [ -f "$home/password" ]; then return; fi
  mkdir -p "$home"
  (
    umask 077
    cd "$home"
    openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/CN=settle test authority" -keyout ca.key -out ca.pem
    openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr
    openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -extfile <(echo "subjectAltName=DNS:localhost,IP:127.0.0.1") -out server.crt
    rm -f .erlang.cookie
    od -An -N20 -tx1 /dev/urandom | tr -d ' \n' >.erlang.cookie
    chmod 400 .erlang.cookie
    od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >password.new
    mv password.new password
  ) 2>"$home/openssl.log" || { cat "$home/openssl.log" >&2; exit 3; }
}

# configure NODE writes its configuration.
configure() {
  local at n
  at=$(node_dir "$1")
  mkdir -p "$at/data" "$at/log"
  echo "[rabbitmq_management,rabbitmq_consistent_hash_exchange]." >"$at/enabled_plugins"
  cat >"$at/rabbitmq.conf" <<CONF
listeners.tcp.1 = 127.0.0.1:$(node_port "$1")
management.tcp.ip = 127.0.0.1
management.tcp.port = $(($(node_port "$1") + 1))
listeners.ssl.1 = 127.0.0.1:$(($(node_port "$1") + 2))
ssl_options.cacertfile = $home/ca.pem
ssl_options.certfile = $home/server.crt
ssl_options.keyfile = $home/server.key
default_user = settle
default_pass = $(cat "$home/password")
log.file = server.log
log.file.level = info
cluster_formation.peer_discovery_backend = rabbit_peer_discovery_classic_config
cluster_formation.randomized_startup_delay_range.min = 0
cluster_formation.randomized_startup_delay_range.max = 1
cluster_partition_handling = pause_minority
CONF
  chmod 600 "$at/rabbitmq.conf"
  if [ "$cluster" = 0 ]; then return; fi
  for n in $cluster; do echo "cluster_formation.classic_config.nodes.$n = $(node_name "$n")"; done >>"$at/rabbitmq.conf"
}

node_name() { echo "settle-$(node_port "$1")@localhost"; }

# at_node NODE COMMAND… runs a program of RabbitMQ in the surroundings of a node, on loopback only; with as=exec in place
# of the shell.
at_node() {
  local at n=$1
  shift
  at=$(node_dir "$n")
  ${as:-} env HOME="$home" ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT="$(names_port)" RABBITMQ_NODENAME="$(node_name "$n")" \
    RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$(node_port "$n")" RABBITMQ_DIST_PORT=$(($(node_port "$n") + 3)) \
    RABBITMQ_MNESIA_BASE="$at/data" RABBITMQ_LOG_BASE="$at/log" RABBITMQ_PID_FILE="$at/pid" RABBITMQ_ENABLED_PLUGINS_FILE="$at/enabled_plugins" \
    RABBITMQ_CONFIG_FILE="$at/rabbitmq.conf" RABBITMQ_CONF_ENV_FILE=/dev/null ERL_CRASH_DUMP="$at/crash.dump" \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none +S 2:2" "$@"
}

service_up() {
  install_server
  make_home
  service_start
}

service_start() {
  local n
  start_names
  for n in $nodes; do
    configure "$n"
    if [ -z "$(node_pid "$n")" ]; then begin "$n"; fi
  done
  for n in $nodes; do answers "$n"; done
}

# start_names starts the daemon of names ahead of the nodes, which would start one that belongs to nobody.
start_names() {
  if [ -n "$(names_pid)" ]; then return; fi
  (exec setsid env ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT="$(names_port)" epmd >>"$home/names.log" 2>&1 </dev/null) &
  echo $! >"$home/names.pid"
}

names_pid() {
  local pid
  pid=$(cat "$home/names.pid" 2>/dev/null) || return 0
  if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = epmd ]; then echo "$pid"; fi
}

# A shell that waited for the server would hold the lock of scripts/services.
begin() {
  local at
  at=$(node_dir "$1")
  rm -f "$at/pid"
  (as=exec; at_node "$1" setsid $tools/rabbitmq-server >>"$at/out" 2>&1 </dev/null) &
}

# answers waits until a node serves, and knows all that were started with it.
answers() {
  local at
  at=$(node_dir "$1")
  for _ in $(seq 600); do
    if [ -f "$at/pid" ] || [ -z "$(jobs -r)" ]; then break; fi
    sleep 0.1
  done
  if [ -n "$(node_pid "$1")" ] && at_node "$1" $tools/rabbitmqctl wait --timeout 170 "$at/pid" >"$at/wait.log" 2>&1 &&
    at_node "$1" $tools/rabbitmqctl --timeout 120 await_online_nodes "$(wc -w <<<"$nodes")" >>"$at/wait.log" 2>&1; then return; fi
  tail -n 10 "$at/out" "$at/wait.log" >&2
  exit 3
}

# A node deletes its file with the process id long before it has ended.
service_stop() {
  local pids pid
  pids=$(service_pids)
  for pid in $pids; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in $pids; do
    for _ in $(seq 600); do
      if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != beam.smp ]; then continue 2; fi
      sleep 0.05
    done
    kill -KILL "$pid" 2>/dev/null || true
  done
}

service_remove() {
  local pid
  pid=$(names_pid)
  if [ "$nodes" = "$cluster" ] && [ -n "$pid" ]; then kill -TERM "$pid"; fi
}

service_url() {
  local n hosts=
  for n in $nodes; do hosts+=,127.0.0.1:$(node_port "$n"); done
  echo "rabbitmq://settle:$(cat "$home/password" 2>/dev/null)@${hosts#,}/"
}
service_admin() { echo "http://127.0.0.1:$(($(node_port "${nodes%% *}") + 1))"; }
service_log() { echo "$(node_dir "${nodes%% *}")/log/server.log"; }
service_pids() { for n in $nodes; do node_pid "$n"; done; }

# The file outlives a server that was killed, and its number may be another's by now.
node_pid() {
  local pid
  pid=$(cat "$(node_dir "$1")/pid" 2>/dev/null) || return 0
  if { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -xqF "RABBITMQ_PID_FILE=$(node_dir "$1")/pid"; then echo "$pid"; fi
}
