#!/bin/sh
# Submits the Flux YAML on standard input; the first argument is the command that does it. Ends when Nimbus has accepted it.
# Flux constructs the topology's components: as the user of its workers, in a folder that this user cannot write.
set -eu
umask 022
user=storm
mkdir -p /var/lib/barograph/submit
cat > /var/lib/barograph/submit/topology.yaml
cd /var/lib/barograph/submit
# What Flux prints is long: its last lines without the frames of a stack trace say why it failed; the whole stays here.
limit=120  # seconds, below the limit of the play: what Flux waits for is Nimbus
status=0
timeout -k 5 $limit setpriv --reuid=$user --regid=$user --init-groups --no-new-privs sh -c "$1" > flux.log 2>&1 || status=$?
if [ $status -ne 0 ]; then
  case $status in 124 | 137) echo "Flux had not ended after $limit s: Nimbus did not take the topology" >> flux.log ;; esac
  grep -v '^[[:space:]]*at ' flux.log | tail -n 8 >&2
  exit 1
fi
tail -n 2 flux.log
