# Takes from this machine what Barograph put there: its programs, workers, files and names. Packages stay, and so does
# whoever holds the machine (/var/lib/barograph-guard). Run as root, again and again if need be; also the guard's end.
# BAROGRAPH_ROOT: a folder in the place of / for tests.
root=${BAROGRAPH_ROOT:-}
conf=$root/etc/supervisor/conf.d/barograph.conf

if [ -e "$conf" ]; then
  for program in $(sed -n 's/^\[program:\(.*\)\]$/\1/p' "$conf"); do
    supervisorctl stop "$program" && supervisorctl remove "$program"
  done >/dev/null 2>&1
  rm -f "$conf"
fi
# A worker outlives its supervisor, and a daemon outlives a supervisord that was killed. Ours are those that were noted as
# they began (playbooks/roles/machine/files/processes.sh), are still the same, have the note's owner and a path of ours.
notes=$root/var/lib/barograph/processes
for note in "$notes"/[1-9]*; do
  [ -f "$note" ] && [ ! -L "$note" ] || continue  # reading a pipe would wait for ever
  number=${note##*/}
  began=$(sed -n 's/.*) //p' "/proc/$number/stat" 2>/dev/null | cut -d ' ' -f 20)
  [ -n "$began" ] && [ "$began" = "$(cat "$note")" ] && [ "$(stat -c %u "/proc/$number")" = "$(stat -c %u "$note")" ] &&
    grep -aqs '/barograph/' "/proc/$number/cmdline" && kill -9 "$number"
done 2>/dev/null
# What has lost its note, as a double fork has, still runs as a user whom only we have made (prepare.sh's comment says so).
# Not processes of containers, which have the same numbers by chance: but for what is in supervisord's own service.
service=$(grep -s supervisor "/proc/$(supervisorctl pid 2>/dev/null || echo 0)/cgroup")
numbers=$(sed -n 's/^\(storm\|barograph\):[^:]*:\([0-9]*\):[0-9]*:Barograph:.*/\2/p' "$root/etc/passwd" 2>/dev/null)
strays() {
  for number in $numbers; do
    for status in $(grep -ls "^Uid:.*[[:space:]]$number\([[:space:]]\|$\)" /proc/[0-9]*/status); do
      folder=${status%/status}
      grep -qs '^State:[[:space:]]*[ZX]' "$status" && continue # it has ended, and waits for its parent
      # One number: of this very namespace. (Root of a container may not read the link ns/pid of other users' processes.)
      [ "$(grep -s '^NSpid:' "$status" | wc -w)" = 2 ] || { [ -n "$service" ] && [ "$(grep -s supervisor "$folder/cgroup")" = "$service" ]; } || continue
      echo "${folder#/proc/}"
    done
  done
}
for _ in 1 2 3 4 5 6 7 8 9 10; do
  many=$(strays 2>/dev/null)
  [ -n "$many" ] || break
  kill -9 $many 2>/dev/null # it may have forked meanwhile
  sleep 0.1
done
[ -z "$many" ] || { echo "process $(echo $many | cut -d ' ' -f 1) cannot be ended" >&2; exit 1; }
# Nor does what they have asked cron for outlive the lease, nor their files.
for number in $numbers; do
  for folder in tmp var/tmp dev/shm var/spool/cron; do
    find "$root/$folder" -xdev -uid "$number" -delete 2>/dev/null
  done
done
[ -n "$root" ] || /usr/sbin/nft delete table inet barograph 2>/dev/null

if grep -qs '^# BEGIN Barograph$' "$root/etc/hosts"; then
  sed '/^# BEGIN Barograph$/,/^# END Barograph$/d' "$root/etc/hosts" >"$root/etc/hosts.barograph" &&
    chmod 644 "$root/etc/hosts.barograph" && mv "$root/etc/hosts.barograph" "$root/etc/hosts"
fi
# Not across file systems: what somebody mounted there is not ours.
for folder in /opt/barograph /etc/barograph /var/lib/barograph /var/log/barograph; do
  rm -rf --one-file-system "$root$folder" 2>/dev/null
  left=$(find "$root$folder" -xdev -type f 2>/dev/null | head -n 1)
  [ -z "$left" ] || { echo "$left cannot be removed" >&2; exit 1; }
done
exit 0
