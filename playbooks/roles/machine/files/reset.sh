#!/bin/sh
# Clears what the last run left on this machine. First argument: joining (its supervisor is stopped) or staying.
# Says `changed` if a supervisor or a worker had to be stopped.
set -eu
log=/var/log/barograph
state=/var/lib/barograph/storm

workers() {
  grep -las '[o]rg\.apache\.storm\.daemon\.worker\.Worker' /proc/[0-9]*/cmdline | cut -d/ -f3
}

if [ "$1" = joining ]; then
  if supervisorctl status supervisor >/dev/null; then
    supervisorctl stop supervisor >/dev/null
    echo changed
  fi
else
  # The supervisor stops its workers when it hears that the topology is gone; give it the time.
  for _ in $(seq 60); do
    [ -n "$(workers)" ] || break
    sleep 0.25
  done
fi
for worker in $(workers); do
  kill -9 "$worker" 2>/dev/null || continue
  echo changed
done
if [ "$1" = joining ]; then
  # Not isupervisor: it holds the supervisor's id, by which Nimbus knows the machine again.
  rm -rf $state/workers $state/workers-users $state/supervisor/stormdist $state/supervisor/localstate $state/supervisor/tmp
fi
# Open logs are emptied where they are: the daemons append. The probe opens its file for every line.
rm -rf $log/workers/* $log/machines/* $log/workers-artifacts/* $log/*.log.[0-9]* $log/*.out.[0-9]*
for open in $log/*.log $log/*.out $log/*.jsonl; do
  [ ! -f "$open" ] || : > "$open"
done
