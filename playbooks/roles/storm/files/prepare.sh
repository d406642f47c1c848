#!/bin/sh
# What Storm needs of a machine: the packages that are named, the daemons' users, supervisord. Says `changed` for what it did,
# and which Java there is: `java <its name>`.
set -eu
started=/var/lib/barograph-packages # a rented machine begins to install them at its first boot: `pid`, then `done` or `failed`

missing() {
  for package do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || printf ' %s' "$package"
  done
}

# The lists have a lock that apt-get does not wait for.
update() {
  for _ in 1 2 3 4 5 6; do
    apt-get -q update >/dev/null && return
    sleep 10
  done
}

left=$(missing "$@")
if [ -n "$left" ] && [ -e "$started/pid" ]; then
  for _ in $(seq 1200); do
    [ ! -e "$started/done" ] && [ ! -e "$started/failed" ] && kill -0 "$(cat "$started/pid")" 2>/dev/null || break
    sleep 0.5
  done
  left=$(missing "$@")
fi
if [ -n "$left" ]; then
  export DEBIAN_FRONTEND=noninteractive
  update
  # Redis' own service would start, here and at each boot: ours is supervisord's, with a configuration of its own.
  redis_service() {
    case $left in *redis-server*) [ ! -d /run/systemd/system ] || systemctl --quiet "$1" redis-server ;; esac
  }
  redis_service mask
  # shellcheck disable=SC2086 # one word a package
  apt-get -q -y -o DPkg::Lock::Timeout=300 --no-install-recommends install $left >/dev/null
  redis_service unmask
  redis_service disable
  echo changed
fi
# account NAME OPTION…: only one that this made, which its comment says, may run what others wrote; no user can change it.
account() {
  name=$1
  shift
  if entry=$(getent passwd "$name"); then
    [ "$(echo "$entry" | cut -d : -f 5)" = Barograph ] && return
    refuse "there is an account $name that Barograph did not make ($(echo "$entry" | cut -d : -f 3,6,7))"
  fi
  ! getent group "$name" >/dev/null || refuse "there is a group $name that Barograph did not make"
  useradd --system --user-group --comment Barograph --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$@" "$name"
  echo changed
}

refuse() {
  echo "the machine is somebody's: $1" >&2
  exit 1
}

account storm
account barograph --groups storm
if [ -d /run/systemd/system ] && ! systemctl is-active --quiet supervisor; then
  for file in /etc/supervisor/conf.d/*.conf; do
    [ ! -e "$file" ] || [ "${file##*/}" = barograph.conf ] ||
      refuse "supervisord is stopped, and would start the programs of $file"
  done
  systemctl enable --now --quiet supervisor
  echo changed
fi
echo "java $(java -Xinternalversion | head -n 1)"
