#!/bin/sh
# Stops the daemons of this machine, newest first, and the workers, which outlive their supervisor.
set -eu
running=$(supervisorctl status | awk '$1 ~ /^(barograph-redis|nimbus|policy-service|supervisor|probe|zookeeper)$/ && $2 ~ /RUNNING|STARTING|BACKOFF/ {print $1}')
if [ -n "$running" ]; then
  # shellcheck disable=SC2086 # one word a program
  supervisorctl stop $running >/dev/null
  echo changed
fi
[ -x /opt/barograph/processes ] || exit 0
for worker in $(/opt/barograph/processes list org.apache.storm.daemon.worker.Worker); do
  kill -9 "$worker" 2>/dev/null || continue
  echo changed
done
