#!/bin/sh
# What a rented machine does at its first boot, as root. Until the host key is in place the harness does not talk to it,
# so all that comes before is done, or begun, when the machine first answers. A machine that cannot even start its guard
# must not stay; what else goes wrong does not end the boot.
umask 022
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mark=/var/lib/barograph-guard/first-boot
[ -e "$mark" ] && exit 0

{
@GUARD@
} || { poweroff || shutdown -h now || halt -p; exit 1; }

# The image may have set root up to refuse every login.
mkdir -p /root/.ssh && chmod 700 /root/.ssh
echo '@LOGIN@' >/root/.ssh/authorized_keys && chmod 600 /root/.ssh/authorized_keys
mkdir -p /etc/ssh/sshd_config.d
echo 'PermitRootLogin prohibit-password' >/etc/ssh/sshd_config.d/00-barograph.conf

hostname '@NAME@' || :
echo '@NAME@' >/etc/hostname || :

# Topologies run on this machine as other users than root: what is in the user data is none of their business.
# Packet filters do not survive a boot, so the image's first boot tool runs this at each.
cat >/usr/local/sbin/barograph-no-metadata <<'SCRIPT'
#!/bin/sh
if command -v iptables >/dev/null; then
    iptables -I OUTPUT -d 169.254.169.254 -m owner ! --uid-owner 0 -j REJECT
elif command -v nft >/dev/null; then
    nft 'add table ip barograph; add chain ip barograph output { type filter hook output priority 0; };
         add rule ip barograph output ip daddr 169.254.169.254 meta skuid != 0 reject'
fi
SCRIPT
chmod 755 /usr/local/sbin/barograph-no-metadata
/usr/local/sbin/barograph-no-metadata || :
if [ -d /var/lib/cloud/scripts/per-boot ]; then
    cp /usr/local/sbin/barograph-no-metadata /var/lib/cloud/scripts/per-boot/barograph-no-metadata
fi

# What Storm needs is installed while the harness does other things; whoever deploys waits for `done` or `failed`.
packages() {
    # Whoever measures on this machine wants nobody to upgrade it meanwhile.
    if [ -d /run/systemd/system ]; then
        systemctl disable --now apt-daily.timer apt-daily-upgrade.timer unattended-upgrades.service
    fi
    for package in @PACKAGES@; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null || return 1
    export DEBIAN_FRONTEND=noninteractive
    # The lists have a lock of their own, which apt-get does not wait for.
    for try in 1 2 3 4 5 6; do
        apt-get -q update && break
        sleep 10
    done
    apt-get -q -y -o DPkg::Lock::Timeout=300 --no-install-recommends install $missing
}

state=@PACKAGES_FOLDER@
mkdir -p "$state"
(
    trap '' HUP
    missing=
    if packages; then : >"$state/done"; else : >"$state/failed"; fi
) </dev/null >"$state/log" 2>&1 &
echo $! >"$state/pid"

# The host key comes last of what the harness waits for. sshd reads it when it starts, or is told to start over.
rm -f /etc/ssh/ssh_host_*
echo '@HOST_KEY@' | base64 -d >/etc/ssh/ssh_host_ed25519_key && chmod 600 /etc/ssh/ssh_host_ed25519_key
ssh-keygen -y -f /etc/ssh/ssh_host_ed25519_key >/etc/ssh/ssh_host_ed25519_key.pub || :
: >"$mark"
if [ -d /run/systemd/system ]; then
    systemctl try-restart ssh.service sshd.service
else
    kill -HUP "$(cat /run/sshd.pid)"
fi 2>/dev/null || :
exit 0
