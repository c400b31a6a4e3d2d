# Boots systemd as the first process of a host over a copy-on-write view of this machine's root file system.
# Variables: NAME, and DIR, an empty directory. The host has its own processes, mounts, network, host name and cgroups.
set -eu
mount -t tmpfs -o size=4g,mode=755 limo-host "$DIR"
cd "$DIR"
mkdir upper work root cgroups
# The hierarchy of version 2 is the same wherever it is mounted. The host sees only the group `host` of it.
mount -t cgroup2 limo-host cgroups
group=$PWD/cgroups/limo-host-$NAME-$$
mkdir "$group" "$group/boot" "$group/host"
echo 0 > "$group/boot/cgroup.procs"
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work limo-host root
cd root
# Services of this machine do not start in the host; those of packages may, whatever this machine says.
rm -rf etc/systemd/system/*.wants etc/machine-id var/lib/limo etc/limo usr/sbin/policy-rc.d
: > etc/machine-id
echo "$NAME" > etc/hostname
mount -t tmpfs -o mode=755 limo-host run
mount -t tmpfs -o mode=1777 limo-host tmp
mount -t tmpfs -o mode=755 limo-host dev
for device in null zero full random urandom tty; do
    : > "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 limo-host dev/pts
mount -t tmpfs -o mode=1777 limo-host dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
hostname "$NAME"
export group
exec unshare --pid --ipc --fork --kill-child --mount --propagation private bash -euc '
    echo 0 > "$group/host/cgroup.procs"
    mount -t proc limo-host proc
    mount -t sysfs limo-host sys
    exec unshare --cgroup bash -euc "
        mount -t cgroup2 limo-host sys/fs/cgroup
        mkdir run/machine
        pivot_root . run/machine
        umount -l run/machine
        rmdir run/machine
        export container=limo-host
        exec /lib/systemd/systemd --unit=basic.target --log-target=journal --show-status=no
    "
'
