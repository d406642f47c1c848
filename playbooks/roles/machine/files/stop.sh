#!/bin/sh
# Stops the daemons of this machine, newest first, and the workers, which outlive their supervisor.
set -eu
running=$(supervisorctl status | awk '$1 ~ /^(nimbus|policy-service|supervisor|probe|zookeeper)$/ && $2 ~ /RUNNING|STARTING|BACKOFF/ {print $1}')
if [ -n "$running" ]; then
  # shellcheck disable=SC2086 # one word a program
  supervisorctl stop $running >/dev/null
  echo changed
fi
for worker in $(grep -las '[o]rg\.apache\.storm\.daemon\.worker\.Worker' /proc/[0-9]*/cmdline | cut -d/ -f3); do
  kill -9 "$worker" 2>/dev/null || continue
  echo changed
done
