# PgBouncer in transaction mode before the service postgres, which must be up: few sessions for many clients, so
# that nothing can be kept in one. Its URL names the database postgres; any other of the server can be named too.
behind=postgres
port=${SETTLE_PGBOUNCER_PORT:-5612}

as_server() { if [ "$(id -u)" = 0 ]; then (cd / && runuser -u postgres -- "$@"); else "$@"; fi; }

service_up() {
  command -v pgbouncer >/dev/null || install "PgBouncer is not installed" pgbouncer
  service_start
}

service_start() {
  local server
  server=$(url_of "$behind") || { say "start $behind first"; exit 1; }
  mkdir -p "$dir"
  rm -f "$dir/pid"
  (
    umask 077
    cat >"$dir/pgbouncer.ini" <<CONF
[databases]
* = host=127.0.0.1 port=${server#*@127.0.0.1:} user=postgres password=$(password_of "$server")
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = plain
auth_file = $dir/users
pool_mode = transaction
default_pool_size = 6
max_client_conn = 300
server_login_retry = 1
logfile = $dir/log
pidfile = $dir/pid
CONF
    sed -i 's#port=\([0-9]*\)/postgres#port=\1#' "$dir/pgbouncer.ini"
    echo "\"postgres\" \"$(password_of "$server")\"" >"$dir/users"
  )
  if [ "$(id -u)" = 0 ]; then chown -R postgres "$dir"; fi
  as_server pgbouncer -q -d "$dir/pgbouncer.ini" </dev/null
  for _ in $(seq 100); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return; fi
    sleep 0.05
  done
  tail -n 5 "$dir/log" >&2
  exit 3
}

password_of() { local rest=${1#postgres://postgres:}; echo "${rest%@*}"; }
# url_of prints another service's URL, where it has one.
url_of() ( dir=$state/$1; [ -f "$dir/password" ] && . "$here/services.d/$1.sh" && service_url )

service_stop() { kill "$(cat "$dir/pid")"; gone; }
service_url() { local server; server=$(url_of "$behind") || return 1; echo "postgres://postgres:$(password_of "$server")@127.0.0.1:$port/postgres"; }
service_log() { echo "$dir/log"; }

service_pids() {
  local pid
  pid=$(cat "$dir/pid" 2>/dev/null) || return 0
  if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q "$dir/pgbouncer.ini"; then echo "$pid"; fi
}
