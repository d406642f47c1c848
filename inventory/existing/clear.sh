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
# Not processes of containers, which have the same numbers by chance: they are in a namespace of numbers of their own, and,
# as only root can make one there, among the machine's own users. But for what is in supervisord's own service.
service=$(grep -s supervisor "/proc/$(supervisorctl pid 2>/dev/null || echo 0)/cgroup")
numbers=$(sed -n 's/^\(storm\|barograph\):[^:]*:\([1-9][0-9]*\):[0-9]*:Barograph:.*/\2/p' "$root/etc/passwd" 2>/dev/null)
processes_of() { # of user $1, a line each: "ours PID" or "theirs PID"
  for status in $(grep -ls "^Uid:.*[[:space:]]$1\([[:space:]]\|$\)" /proc/[0-9]*/status); do
    folder=${status%/status} whose=ours
    grep -qs '^State:[[:space:]]*[ZX]' "$status" && continue # it has ended, and waits for its parent
    # (Root of a container may read neither ns/pid nor ns/user of other users' processes.)
    [ "$(grep -s '^NSpid:' "$status" | wc -w)" -gt 2 ] && cmp -s /proc/self/uid_map "$folder/uid_map" &&
      { [ -z "$service" ] || [ "$(grep -s supervisor "$folder/cgroup")" != "$service" ]; } && whose=theirs
    echo "$whose ${folder#/proc/}"
  done
}
remove_files() { # below the folders, of our users
  for number in $numbers; do
    for folder in "$@"; do
      find "$root/$folder" -xdev -uid "$number" -delete 2>/dev/null
    done
  done
}
end_strays() {
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    remove_files var/spool/cron # cron and at would start others
    many=
    for number in $numbers; do
      seen=$(processes_of "$number" 2>/dev/null)
      ours=$(echo "$seen" | sed -n 's/^ours //p')
      many="$many $ours"
      # All in one call: of a chain in which each process forks and ends none may be seen.
      case $seen in *theirs*) ;; *) setpriv --reuid="$number" --clear-groups sh -c 'kill -9 -1' 2>/dev/null ;; esac
      kill -9 $ours 2>/dev/null
    done
    many=$(echo $many)
    [ -n "$many" ] || break
    sleep 0.1
  done
  [ -z "$many" ] || { echo "process ${many%% *} cannot be ended" >&2; exit 1; }
  remove_files tmp var/tmp dev/shm var/spool/cron
}
end_strays
[ -n "$root" ] || /usr/sbin/nft delete table inet barograph 2>/dev/null
rm -f "$root/run/barograph-firewall"

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
end_strays # what cron had begun meanwhile
exit 0
