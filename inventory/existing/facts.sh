# What a machine is, one `key value` a line; read by inventory.existing.survey. What is not there is left out.
least() { sort -g | head -n 1; }
. /etc/os-release
echo "os $ID $ID_LIKE"
echo "system $PRETTY_NAME"
command -v apt-get >/dev/null && echo "apt yes"
python3 -c 'import sys; print("python %d.%d" % sys.version_info[:2])' 2>/dev/null
java -version 2>&1 | sed -n 's/^[a-z]* version "\([0-9]*\).*/java \1/p'
apt-cache policy openjdk-17-jre-headless 2>/dev/null | grep -q 'Candidate: [0-9]' && echo "java17 yes"
# A machine that is itself a container sees the processors and the memory of what it runs on: its limits are its own.
{
  nproc
  awk '$1 > 0 { printf "%g\n", $1 / $2 }' /sys/fs/cgroup/cpu.max 2>/dev/null
  paste /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us 2>/dev/null | awk '$1 > 0 { printf "%g\n", $1 / $2 }'
} | least | sed 's/^/cores /'
{
  awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo
  cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null | awk '/^[0-9]+$/ { print int($1 / 1048576) }'
} | least | sed 's/^/memory_mb /'
hostname -I | sed 's/^/addresses /'
# Root may set packet filters (bit 12): without them Storm would be open to whoever reaches the machine.
capabilities=0x$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
[ $((capabilities >> 12 & 1)) = 1 ] && echo "filters yes"
# Somebody's Storm: `storm PID USER PORTS CLASS`. The patterns do not match a shell that has them in its own command line.
owner() { stat -c %U "/proc/$1" 2>/dev/null; }
ports() { ss -Hltnp 2>/dev/null | grep "pid=$1," | awk '{ sub(/.*:/, "", $4); print $4 }' | sort -un | paste -sd, -; }
for file in $(grep -las 'org[.]apache[.]storm[.]\|zookeeper[.]server[.]quorum' /proc/[0-9]*/cmdline); do
  grep -aqs '/opt[/]barograph/' "$file" && continue
  process=${file#/proc/} process=${process%/cmdline}
  class=$(tr '\0' '\n' <"$file" 2>/dev/null | grep -x 'org[.]apache[.][A-Za-z.]*' | head -n 1)
  [ -z "$class" ] || echo "storm $process $(owner "$process") $(ports "$process" | grep . || echo unknown) $class"
done
# Whoever listens where ours will: `listener PORT PID USER COMMAND`. Root of a container may not see which process it is,
# but always whose.
ss -Hltnep 2>/dev/null | awk '{
    port = $4; sub(/.*:/, "", port)
    command = pid = "unknown"; uid = 0
    if (match($0, /users:\(\("[^"]*",pid=[0-9]+/)) {
      split(substr($0, RSTART, RLENGTH), part, "\""); command = part[2]
      pid = substr($0, RSTART, RLENGTH); sub(/.*=/, "", pid)
    }
    if (match($0, /uid:[0-9]+/)) uid = substr($0, RSTART + 4, RLENGTH - 4)
    print port, pid, uid, command
  }' |
  while read -r port process uid command; do
    case $port in 2181 | 6627 | 6628 | 67[0-5][0-9] | 676[0-3] | 8700) ;; *) continue ;; esac
    user=$(id -nu "$uid" 2>/dev/null || echo "$uid")
    case $process-$user in unknown-storm | unknown-barograph) continue ;; esac # of an earlier lease
    grep -aqs '/opt[/]barograph/\|scheduler_plugins[.]service' "/proc/$process/cmdline" ||
      echo "listener $port $process $user $command"
  done | sort -u
# A program of the same name in somebody's supervisord would be replaced by ours.
for file in /etc/supervisor/conf.d/*.conf /etc/supervisor/supervisord.conf; do
  [ "${file##*/}" = barograph.conf ] || sed -n "s|^\[program:\(nimbus\|supervisor\|zookeeper\|probe\|policy-service\)\].*|program \1 $file|p" "$file" 2>/dev/null
done
# An account called as ours that this harness did not make (playbooks/roles/storm/files/prepare.sh): `account NAME UID HOME`.
for name in storm barograph; do
  if entry=$(getent passwd "$name"); then
    [ "$(echo "$entry" | cut -d : -f 5)" = Barograph ] || echo "account $name $(echo "$entry" | cut -d : -f 3,6 | tr : ' ')"
  elif entry=$(getent group "$name"); then
    echo "account $name $(echo "$entry" | cut -d : -f 3) none"
  fi
done
cat /var/lib/barograph-guard/lease.json 2>/dev/null | tr -d '\n' | sed 's/^/lease /'
echo
