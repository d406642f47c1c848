#!/bin/sh
# Prints, in base64, an archive of what a run left under /var/log/barograph; on standard error a line
# `missing <name>` for each expected file that is not there, and for each that is too large to fetch (a topology may
# leave a file of a terabyte, sparse on its disk). Arguments: the machine's name; further expected files.
set -eu
cd /var/log/barograph
for expected in "machines/$1.jsonl" ${2:+"$2"}; do
  [ -s "$expected" ] || echo "missing $expected" >&2
done
large=$(find . -ignore_readdir_race -type f -size +4294967296c)
[ -z "$large" ] || printf '%s\n' "$large" | sed 's|^\./|missing |; s|$| (above 4 GiB)|' >&2
# sh knows only how the last part of a pipe ended: each part that fails says so beside the pipe.
# Daemons go on writing into their logs, so files change while they are read (1): that is no failure.
exec 4>&1
failed=$({
  {
    printf '%s\n' "$large" |
      tar --anchored --no-wildcards -X - --warning=no-file-changed --warning=no-file-removed -cf - . ||
      [ $? -eq 1 ] || echo tar >&3
  } |
    { gzip -3 || echo gzip >&3; } |
    { base64 -w 0 || echo base64 >&3; } >&4
} 3>&1)
[ -z "$failed" ] || { echo "what the run left could not be packed: $failed failed" >&2; exit 1; }
