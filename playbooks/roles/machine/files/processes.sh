#!/bin/sh
# Which processes of this machine are ours: those that noted themselves as they began, and whose number has not become
# another's since. A note says nothing about a process of another user than its writer's.
#   run PROGRAM ARGUMENT…   becomes the program, after noting its number and when it began
#   list WORD               the numbers of ours that run and have WORD in their command line
folder=${BAROGRAPH_PROCESSES:-/var/lib/barograph/processes}

# Of /proc/PID/stat, whose second field may have spaces: clock ticks from the boot to the start.
began() { sed -n 's/.*) //p' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

if [ "$1" = run ]; then
  shift
  # As apply.py and supervisord's barograph-firewall leave it: nothing of Storm listens before the firewall is loaded.
  [ -e "${BAROGRAPH_FIREWALL:-/run/barograph-firewall}" ] || { echo "$1 waits for the firewall" >&2; exit 1; }
  # Another user may have put a link to a file of ours, or a file of theirs, in the place of this number's note.
  rm -f "$folder/$$"
  set -C
  began $$ >"$folder/$$" || exit 1
  set +C
  exec "$@"
fi

for note in "$folder"/[1-9]*; do
  [ -f "$note" ] && [ ! -L "$note" ] || continue  # reading a pipe would wait for ever
  number=${note##*/}
  if [ ! -e "/proc/$number" ] || [ "$(began "$number")" != "$(cat "$note" 2>/dev/null)" ]; then
    rm -f "$note"
  elif [ "$(stat -c %u "/proc/$number" 2>/dev/null)" = "$(stat -c %u "$note")" ] && grep -aqs -- "$2" "/proc/$number/cmdline"; then
    echo "$number"
  fi
done
