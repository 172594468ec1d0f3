# A streaming standby of postgres-primary, which is started with it. Nobody waits for it at first; what switches:
#   on the primary   ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf()     commits wait for it
#                    ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()         and no more
#   on the standby   SELECT pg_promote()                                                           it takes over
#                    SELECT pg_wal_replay_pause()                                                  it falls behind
# A pair of which one was promoted is no pair any more: down postgres-replica postgres-primary, and up again. A program
# that finds whichever leads is given both: postgres://postgres:…@127.0.0.1:5613,127.0.0.1:5614/postgres?target_session_attrs=read-write
. "$here/services.d/postgres.sh"
needs=postgres-primary
port=${SETTLE_POSTGRES_REPLICA_PORT:-5614}

# make_cluster writes the password last: with it the copy is whole.
make_cluster() {
  local primary server
  primary=$state/$needs
  server=$(dir=$primary; . "$here/services.d/$needs.sh"; service_url)
  rm -rf "$dir"
  mkdir -p "$dir"
  if [ "$(id -u)" = 0 ]; then chown postgres "$dir"; fi
  as_server "$(bin)/pg_basebackup" -d "$server" -D "$dir/data" -X stream -C -S "follower_$port" -R -c fast >"$dir/init.log" 2>&1 ||
    { cat "$dir/init.log" >&2; exit 3; }
  printf "port = %s\ncluster_name = 'postgres-replica'\n" "$port" >>"$dir/data/postgresql.conf"
  cp -p "$primary/password" "$dir/password"
}
