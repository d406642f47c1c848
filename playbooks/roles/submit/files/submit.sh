#!/bin/sh
# Submits the Flux YAML on standard input; the first argument is the command that does it. Ends when Nimbus has accepted it.
set -eu
mkdir -p /var/lib/barograph/submit
cat > /var/lib/barograph/submit/topology.yaml
cd /var/lib/barograph/submit
# What Flux prints is long: its last lines without the frames of a stack trace say why it failed; the whole stays here.
if ! sh -c "$1" > flux.log 2>&1; then
  grep -v '^[[:space:]]*at ' flux.log | tail -n 8 >&2
  exit 1
fi
tail -n 2 flux.log
