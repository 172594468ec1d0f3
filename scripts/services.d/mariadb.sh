# MariaDB, Debian's; root installs it when there is none. Durable as in production (each commit and its binary log
# reach the disk), with a binary log of rows that a replica can read.
port=${SETTLE_MARIADB_PORT:-5621}
server_id=1

# settings prints lines of the server's file, first_words SQL that a new server begins with.
settings() { :; }
first_words() { :; }
new_password() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# The server does not run as root.
as_user() { if [ "$(id -u)" = 0 ]; then echo --user=mysql; fi; }

install_server() {
  if command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null; then return; fi
  install "MariaDB is not installed: no mariadbd and mariadb-install-db on the PATH" mariadb-server
}

service_up() {
  install_server
  if [ ! -f "$dir/password" ]; then
    make_data
  fi
  service_start
}

# make_data writes the password last: with it the data is whole. The socket is for the first words only. The folder of
# temporary tables is the server's own: one that starts deletes all that it finds there, and whoever had made them ends
# with signal 11.
make_data() {
  rm -rf "$dir"
  mkdir -p "$dir/data" "$dir/tmp"
  (umask 077; new_password >"$dir/password.new")
  cat >"$dir/my.cnf" <<CONF
[mariadbd]
datadir = $dir/data
tmpdir = $dir/tmp
socket = $dir/socket
pid-file = $dir/pid
log-error = $dir/log.err
bind-address = 127.0.0.1
port = $port
skip-name-resolve
character-set-server = utf8mb4
collation-server = utf8mb4_bin
innodb_buffer_pool_size = 256M
innodb_flush_log_at_trx_commit = 1
innodb_autoinc_lock_mode = 2
sync_binlog = 1
log-bin = $dir/data/bin
binlog_format = ROW
expire_logs_days = 1
server-id = $server_id
max_connections = 300
max_allowed_packet = 64M
$(settings)
CONF
  cat >"$dir/init.sql" <<SQL
SET sql_log_bin = 0;
CREATE USER IF NOT EXISTS settle@'127.0.0.1' IDENTIFIED BY '$(cat "$dir/password.new")';
GRANT ALL ON *.* TO settle@'127.0.0.1' WITH GRANT OPTION;
CREATE DATABASE IF NOT EXISTS settle;
$(first_words)
SQL
  chmod 600 "$dir/init.sql"
  if [ "$(id -u)" = 0 ]; then chown -R mysql "$dir"; fi
  mariadb-install-db --defaults-file="$dir/my.cnf" $(as_user) --auth-root-authentication-method=normal --skip-test-db >"$dir/init.log" 2>&1 ||
    { tail -n 20 "$dir/log.err" "$dir/init.log" >&2; exit 3; }
  begin --init-file="$dir/init.sql"
  service_stop
  rm "$dir/init.sql"
  mv "$dir/password.new" "$dir/password"
}

# begin returns when the server answers. A shell that waited for it would hold the lock of scripts/services.
begin() {
  rm -f "$dir/pid" "$dir/socket"
  (exec setsid mariadbd --defaults-file="$dir/my.cnf" $(as_user) "$@" >>"$dir/out" 2>&1 </dev/null) &
  for _ in $(seq 600); do
    if mariadb-admin --no-defaults --socket="$dir/socket" ping >/dev/null 2>&1; then return; fi
    if [ -z "$(jobs -r)" ]; then break; fi
    sleep 0.05
  done
  tail -n 10 "$dir/log.err" >&2
  exit 3
}

service_start() { begin; }

service_stop() {
  local pid
  pid=$(service_pids)
  if [ -z "$pid" ]; then return; fi
  kill -TERM "$pid" 2>/dev/null || true
  for _ in $(seq 600); do
    if [ -z "$(service_pids)" ]; then return; fi
    sleep 0.05
  done
  kill -KILL "$pid" 2>/dev/null || true
}

service_url() { echo "mysql://settle:$(cat "$dir/password")@127.0.0.1:$port/settle"; }
service_log() { echo "$dir/log.err"; }

service_pids() {
  local pid
  pid=$(cat "$dir/pid" 2>/dev/null) || return 0
  # The file outlives a server that was killed, and its number may be another's by now.
  if [ "$(readlink -f "/proc/$pid/cwd" 2>/dev/null)" = "$(readlink -f "$dir/data")" ]; then echo "$pid"; fi
}
