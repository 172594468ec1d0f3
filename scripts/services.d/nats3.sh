# Three servers of NATS in one cluster with JetStream: the server that Settle embeds, one process each. Topics have three
# copies, of which two must have what is acknowledged. User settle; the user system, of the system account, has the same
# password. Each server is a service of its own, too: kill, pause, resume, start, logs and status take nats3-1 to nats3-3.
port=${SETTLE_NATS3_PORT:-5711}
nodes="1 2 3"
# What the servers share.
home=$state/nats3

node_dir() { echo "$home/$1"; }
# The ports behind it are the monitor's and the cluster's.
node_port() { echo $((port + 3 * ($1 - 1))); }

service_up() {
  command -v go >/dev/null || { say "NATS is built from this checkout, and go is not on the PATH"; exit 3; }
  mkdir -p "$home"
  go build -C "$here/.." -o "$home/natsnode" ./internal/natsnode
  if [ ! -f "$home/password" ]; then (umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$home/password"); fi
  service_start
}

service_start() {
  local n
  for n in $nodes; do
    if [ -z "$(node_pid "$n")" ]; then begin "$n"; fi
  done
  for n in $nodes; do answers "$n"; done
}

# begin NODE. A shell that waited for the server would hold the lock of scripts/services.
begin() {
  local at n routes=
  at=$(node_dir "$1")
  for n in 1 2 3; do routes+=", \"nats://127.0.0.1:$(($(node_port "$n") + 2))\""; done
  mkdir -p "$at"
  (umask 077 && sed -e "s|@ID@|$1|; s|@DIR@|$at|; s|@ROUTES@|${routes#, }|; s|@PASSWORD@|$(cat "$home/password")|" \
    -e "s|@PORT@|$(node_port "$1")|; s|@HTTPPORT@|$(($(node_port "$1") + 1))|; s|@CPORT@|$(($(node_port "$1") + 2))|" \
    "$here/services.d/nats3/server.conf" >"$at/server.conf")
  (exec setsid "$home/natsnode" "$at/server.conf" >>"$at/out" 2>&1 </dev/null) &
  echo $! >"$at/pid"
}

# answers waits until the monitor of a server says that it is whole: it has caught up with the leader of the cluster.
# A look may take 2 s, so it is the time that is bounded.
answers() {
  local end=$((SECONDS + 240))
  while ((SECONDS < end)); do
    if [[ $(monitor "$1" /healthz) == *'"ok"'* ]]; then return; fi
    if [ -z "$(node_pid "$1")" ]; then break; fi
    sleep 0.1
  done
  tail -n 10 "$(node_dir "$1")/out" "$(node_dir "$1")/log" >&2
  say "node $1 of NATS is not ready"
  exit 3
}

monitor() {
  (
    exec 8<>"/dev/tcp/127.0.0.1/$(($(node_port "$1") + 1))"
    printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&8
    timeout 2 cat <&8
  ) 2>/dev/null
}

service_stop() {
  local pid
  for pid in $(service_pids); do kill -TERM "$pid" 2>/dev/null || true; done
  gone
}

service_url() {
  local n hosts= monitors=
  for n in $nodes; do
    hosts+=,127.0.0.1:$(node_port "$n")
    monitors+="&monitor=http://127.0.0.1:$(($(node_port "$n") + 1))"
  done
  echo "nats://settle:$(cat "$home/password")@${hosts#,}?${monitors#&}"
}
# The monitor of the first of its servers.
service_admin() { echo "http://127.0.0.1:$(($(node_port "${nodes%% *}") + 1))"; }
service_log() { echo "$(node_dir "${nodes%% *}")/log"; }
service_pids() { for n in $nodes; do node_pid "$n"; done; }

# The file outlives a server that was killed, and its number may be another's by now.
node_pid() {
  local pid at
  at=$(node_dir "$1")
  pid=$(cat "$at/pid" 2>/dev/null) || return 0
  if { tr '\0' '\n' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -xqF "$at/server.conf"; then echo "$pid"; fi
}
