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
cat /var/lib/barograph-guard/lease.json 2>/dev/null | tr -d '\n' | sed 's/^/lease /'
echo
