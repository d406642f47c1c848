#!/bin/sh
# Keeps what comes on standard input in /etc/barograph/NAME; says whether it was other. Arguments: NAME OWNER MODE. The
# group is storm, which barograph is in too.
set -eu
umask 077
mkdir -p -m 755 /etc/barograph
new=/etc/barograph/.$1 kept=/etc/barograph/$1
cat > "$new"
if cmp -s "$new" "$kept"; then
  rm "$new"
else
  chown "$2:storm" "$new"
  chmod "$3" "$new"
  mv "$new" "$kept"
  echo changed
fi
