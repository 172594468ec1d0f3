# MySQL, of which stable Debian has no server: the packages of its unstable release, with the libraries they need, are
# fetched once by apt, from where this machine has Debian from, and unpacked into a folder of SETTLE_CACHE_DIR, by default
# one in /var/cache for root and in the user's cache for others. Nothing is installed: the server is run by the loader that
# came with it. Durable as in production. All that is not said here is as the service mariadb has it.
. "$here/services.d/mariadb.sh"
port=${SETTLE_MYSQL9_PORT:-5624}

root() {
  local at=${XDG_CACHE_HOME:-$HOME/.cache}
  # The server runs as another user, who can't look into root's home.
  if [ "$(id -u)" = 0 ]; then at=/var/cache; fi
  echo "${SETTLE_CACHE_DIR:-$at/settle}/mysql-sid"
}

install_server() {
  local at new debian deb
  at=$(root)
  if [ "$(id -u)" = 0 ] && ! id mysql >/dev/null 2>&1; then useradd --system --no-create-home --shell /bin/sh mysql; fi
  if [ -d "$at" ]; then return; fi
  command -v apt-get >/dev/null || { say "MySQL is unpacked from Debian's packages, and apt-get is not on the PATH"; exit 3; }
  # The first Debian that apt knows here, without what it has of updates.
  debian=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian \(.*\/debian\/\?\)$/\1/p' | head -n 1)
  [ -n "$debian" ] || { say "apt has no source of Debian's packages, from which MySQL would be unpacked"; exit 3; }
  say "fetching MySQL"
  mkdir -p "$(dirname "$at")"
  # Renamed when it is whole, so that what was interrupted is fetched again.
  new=$(mktemp -d "$at.XXXXXX")
  mkdir -p "$new/apt/lists/partial" "$new/apt/archives/partial" "$new/root"
  touch "$new/apt/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $debian sid main" >"$new/apt/sources"
  cat >"$new/apt/conf" <<CONF
Dir::State "$new/apt";
Dir::State::status "$new/apt/status";
Dir::Cache "$new/apt";
Dir::Etc::sourcelist "$new/apt/sources";
Dir::Etc::sourceparts "-";
Acquire::Languages "none";
APT::Sandbox::User "";
APT::Install-Recommends "false";
CONF
  # To apt nothing is installed there, so it fetches each library too.
  (export APT_CONFIG=$new/apt/conf; apt-get update -qq && apt-get install -y -qq --download-only mysql-server-core) >"$new/apt/log" 2>&1 ||
    { tail -n 10 "$new/apt/log" >&2; rm -rf "$new"; say "MySQL could not be fetched"; exit 3; }
  for deb in "$new"/apt/archives/*.deb; do dpkg -x "$deb" "$new/root"; done
  chmod -R go+rX "$new/root"
  mv -T "$new/root" "$at"
  rm -rf "$new"
}

# mysqld is the server in the place of whoever calls it.
mysqld() {
  local at
  at=$(root)
  exec "${before[@]}" "$at/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --library-path "$at/usr/lib/x86_64-linux-gnu" "$at/usr/sbin/mysqld" \
    --defaults-file="$dir/my.cnf" $(as_user) "$@"
}

# make_data writes the password last: with it the data is whole.
make_data() {
  local before=()
  rm -rf "$dir"
  mkdir -p "$dir/tmp"
  (umask 077; new_password >"$dir/password.new")
  cat >"$dir/my.cnf" <<CONF
[mysqld]
basedir = $(root)/usr
datadir = $dir/data
tmpdir = $dir/tmp
socket = $dir/socket
pid-file = $dir/pid
log-error = $dir/log.err
secure-file-priv = NULL
mysqlx = OFF
bind-address = 127.0.0.1
port = $port
skip-name-resolve
character-set-server = utf8mb4
collation-server = utf8mb4_bin
innodb_buffer_pool_size = 256M
innodb_flush_log_at_trx_commit = 1
sync_binlog = 1
log-bin = $dir/data/bin
binlog_expire_logs_seconds = 86400
server-id = $server_id
max_connections = 300
max_allowed_packet = 64M
# The length of the history is told as it is, and not only after many rounds of cleaning.
innodb_purge_rseg_truncate_frequency = 1
CONF
  cat >"$dir/init.sql" <<SQL
SET sql_log_bin = 0;
CREATE USER settle@'127.0.0.1' IDENTIFIED BY '$(cat "$dir/password.new")';
GRANT ALL ON *.* TO settle@'127.0.0.1' WITH GRANT OPTION;
CREATE DATABASE settle;
INSTALL COMPONENT 'file://component_classic_hashing';
SQL
  chmod 600 "$dir/init.sql"
  if [ "$(id -u)" = 0 ]; then chown -R mysql "$dir"; fi
  (mysqld --initialize-insecure >"$dir/out" 2>&1) || { tail -n 20 "$dir/log.err" "$dir/out" >&2; exit 3; }
  begin --init-file="$dir/init.sql"
  service_stop
  rm "$dir/init.sql"
  mv "$dir/password.new" "$dir/password"
}

# begin returns when the server greets. A shell that waited for it would hold the lock of scripts/services.
begin() {
  local before=(setsid)
  rm -f "$dir/pid" "$dir/socket"
  (mysqld "$@" >>"$dir/out" 2>&1 </dev/null) &
  for _ in $(seq 1200); do
    if [ -n "$(service_pids)" ] && greets; then return; fi
    if [ -z "$(jobs -r)" ]; then break; fi
    sleep 0.05
  done
  tail -n 10 "$dir/log.err" >&2
  exit 3
}

# A server takes connections before it is ready, and greets none of them until then.
greets() { (exec 8<>"/dev/tcp/127.0.0.1/$port" && [ -n "$(timeout 2 head -c 4 <&8 | tr -d '\0')" ]) 2>/dev/null; }
