#!/bin/sh
# Ends this machine, or what Barograph started on it, when its lease ends: also if nobody out there remembers it.
#
# $state/expires  "<epoch s> <longest s>": the lease's end, and how long it may be from the moment this line was
#                 written. The second number is counted by a clock that nobody sets, so that a wall clock that is wrong
#                 or jumps back makes no difference.
# $state/end      what to do then; without this file the machine is powered off.
state=${BAROGRAPH_GUARD:-/var/lib/barograph-guard}
every_s=${BAROGRAPH_GUARD_EVERY_S:-3}
unknown_s=3600 # as long as nothing was ever readable

running_s() { cut -d. -f1 /proc/uptime; }

# What was counted before this guard was started again. A new boot counts anew.
remember() { printf '%s|%s|%s\n' "$boot" "$known" "$deadline" >"$state/seen.partial" && mv "$state/seen.partial" "$state/seen"; }

recall() {
    IFS='|' read -r seen_boot seen_known seen_deadline 2>/dev/null <"$state/seen" || return 0
    [ "$seen_boot" = "$boot" ] || return 0
    case $seen_deadline in '' | *[!0-9]*) return 0 ;; esac
    known=$seen_known deadline=$seen_deadline
}

# Sets `known` and `deadline` from a line that says something new; what cannot be read changes nothing.
look() {
    line=$(cat "$state/expires" 2>/dev/null)
    [ "$line" != "$known" ] || return 0
    case $line in *[!0-9\ ]* | '' | ' '* | *' ' | *' '*' '*) return 0 ;; *' '*) ;; *) return 0 ;; esac
    known=$line deadline=$(($(running_s) + ${line#* }))
    remember
}

is_over() {
    [ "$(running_s)" -ge "$deadline" ] && return 0
    [ -n "$known" ] && [ "$(date +%s)" -ge "${known% *}" ]
}

end() {
    if [ -e "$state/end" ]; then
        sh "$state/end" && exit 0
    elif [ "$tries" -lt 3 ]; then
        poweroff || shutdown -h now || halt -p
    else
        poweroff -f
    fi
    tries=$((tries + 1))
}

boot=$(cat /proc/sys/kernel/random/boot_id) known='' tries=0
deadline=$(($(running_s) + unknown_s))
recall
while :; do
    look
    is_over && end
    sleep "$every_s"
done
