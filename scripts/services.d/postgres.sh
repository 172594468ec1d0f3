# PostgreSQL, the newest that is installed; root installs Debian's when there is none. Durable as in production
# (fsync on), with prepared transactions allowed and a log that logical replication can read.
port=${SETTLE_POSTGRES_PORT:-5611}

# The server refuses to run as root.
as_server() { if [ "$(id -u)" = 0 ]; then (cd / && runuser -u postgres -- "$@"); else "$@"; fi; }

bin() {
  local initdb
  initdb=$(find /usr/lib/postgresql /usr/local /opt -name initdb -path '*/bin/*' -executable 2>/dev/null | sort -V | tail -n 1)
  initdb=$(readlink -e "${initdb:-$(command -v initdb)}") || return 1
  # Not the link's: what it leads to has the other programs beside it.
  dirname "$initdb"
}

install_server() {
  if bin >/dev/null 2>&1; then return; fi
  # Debian's package would make a cluster of its own.
  if [ "$(id -u)" = 0 ]; then
    mkdir -p /etc/postgresql-common
    grep -qs '^create_main_cluster' /etc/postgresql-common/createcluster.conf || echo 'create_main_cluster = false' >>/etc/postgresql-common/createcluster.conf
  fi
  install "PostgreSQL is not installed: no initdb on the PATH or under /usr/lib/postgresql" postgresql
}

service_up() {
  install_server
  if [ ! -f "$dir/password" ]; then
    make_cluster
  fi
  service_start
}

# make_cluster writes the password last: with it the cluster is whole.
make_cluster() {
  rm -rf "$dir"
  mkdir -p "$dir"
  (umask 077; od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$dir/password.new")
  if [ "$(id -u)" = 0 ]; then chown postgres "$dir" "$dir/password.new"; fi
  as_server "$(bin)/initdb" -D "$dir/data" -U postgres -E UTF8 --no-locale --no-instructions --auth=scram-sha-256 --pwfile="$dir/password.new" >"$dir/init.log" 2>&1 ||
    { cat "$dir/init.log" >&2; exit 3; }
  cat >>"$dir/data/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = ''
max_connections = 300
max_prepared_transactions = 64
wal_level = logical
shared_buffers = 256MB
CONF
  mv "$dir/password.new" "$dir/password"
}

service_start() {
  # Nothing of it runs: a number that is left belongs to nobody, or to a process that nobody has waited for.
  rm -f "$dir/data/postmaster.pid"
  # Children of a server that was killed may still be about to end.
  for _ in $(seq 20); do
    if as_server "$(bin)/pg_ctl" -D "$dir/data" -l "$dir/log" -t 60 -w start >"$dir/start.log" 2>&1; then return; fi
    grep -q 'shared memory block' "$dir/log" || break
    sleep 0.1
  done
  cat "$dir/start.log" >&2
  tail -n 5 "$dir/log" >&2
  exit 3
}

service_stop() { as_server "$(bin)/pg_ctl" -D "$dir/data" -m immediate -w stop; }
service_url() { echo "postgres://postgres:$(cat "$dir/password")@127.0.0.1:$port/postgres"; }
service_log() { echo "$dir/log"; }

service_pids() {
  local pid
  pid=$(head -n 1 "$dir/data/postmaster.pid" 2>/dev/null) || return 0
  # The file outlives a server that was killed, and its number may be another's by now.
  if [ "$(readlink -f "/proc/$pid/cwd" 2>/dev/null)" = "$(readlink -f "$dir/data")" ]; then echo "$pid"; fi
  pgrep -P "$pid" || true
}
