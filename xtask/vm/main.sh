#!/bin/sh
# Sets the machine up like an ordinary host, walks the steps of the scenario named on the kernel's command line, and
# writes one line for each to the second serial port: number, exit code, stdout and stderr in base64.
export PATH=/usr/bin:/usr/sbin
umask 022
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo '+memory +pids +cpu' > /sys/fs/cgroup/cgroup.subtree_control
chmod 1777 /tmp /dev/shm
stty -F /dev/ttyS1 raw
# Values that the boot loader was given.
given() {
    tr ' ' '\n' < /proc/cmdline | grep "^$1=" | cut -d= -f2
}
scenario=$(given ringfence)

# A group handed to the user, as systemd does with Delegate=yes.
mkdir /sys/fs/cgroup/user
echo '+memory +pids +cpu' > /sys/fs/cgroup/user/cgroup.subtree_control
mkdir /sys/fs/cgroup/user/shell
chown 1000:1000 /sys/fs/cgroup/user /sys/fs/cgroup/user/cgroup.procs /sys/fs/cgroup/user/cgroup.subtree_control \
    /sys/fs/cgroup/user/shell /sys/fs/cgroup/user/shell/cgroup.procs

# Loads the modules, brings lo up, and listens where no run may connect. Says when it is there.
ready=/run/ready
python3 /vm/services.py &
while [ ! -e "$ready" ]; do sleep 0.1; done

# Workspaces on a filesystem that can translate owners, which tmpfs cannot before 6.3.
# Sparse: the programs of the harness, with their symbols, take some hundred megabytes of it.
dd if=/dev/zero of=/run/disk bs=1M count=0 seek=1024 2>/dev/null
mke2fs -q -F -t ext4 -O ^has_journal /run/disk
mount -o loop /run/disk /ws
mkdir -p /ws/root /ws/user /ws/delegated /tmp/root-work /home/user /root
chown 1000:1000 /ws/user /ws/delegated /home/user
chmod 700 /root /home/user
for home in /root /home/user; do
    mkdir -p $home/.ssh
    echo canary > $home/.ssh/id_ed25519
done
chown -R 1000:1000 /home/user
for work in root user delegated; do echo SECRET=canary > /ws/$work/.env; done
chown 1000:1000 /ws/user/.env /ws/delegated/.env

if [ "$(given ringfence.userns)" = used-up ]; then echo 0 > /proc/sys/user/max_user_namespaces; fi
seconds=$(given ringfence.seconds)

encoded() {
    if [ -s "$1" ]; then base64 -w0 "$1"; else printf -- -; fi
}

for step in /vm/"$scenario"/*; do
    name=${step##*/}
    who=${name#*.}
    case $who in
    root) run="env -i PATH=$PATH HOME=/root" ;;
    *) run="setpriv --reuid 1000 --regid 1000 --clear-groups --bounding-set -all env -i PATH=$PATH HOME=/home/user" ;;
    esac
    (
        [ "$who" != delegated ] || echo 0 > /sys/fs/cgroup/user/shell/cgroup.procs
        cd /ws/"$who" && exec timeout -s KILL $seconds $run sh "$step"
    ) > /run/stdout 2> /run/stderr < /dev/null
    echo "${name%%.*} $? $(encoded /run/stdout) $(encoded /run/stderr)" > /dev/ttyS1
done
# Powers off at once; there is nothing to save.
echo o > /proc/sysrq-trigger
sleep 60
