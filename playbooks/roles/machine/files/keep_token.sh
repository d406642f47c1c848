#!/bin/sh
# Keeps the token from standard input in a file that only the daemons' user reads; says whether it was another one.
set -eu
umask 077
mkdir -p -m 755 /etc/barograph
cat > /etc/barograph/.token
if cmp -s /etc/barograph/.token /etc/barograph/token; then
  rm /etc/barograph/.token
else
  chown storm:storm /etc/barograph/.token
  mv /etc/barograph/.token /etc/barograph/token
  echo changed
fi
