# Boots systemd in new namespaces: a copy of this machine's files in memory, with the programs and units of Limo.
# Arguments: a directory, that of the programs, and deploy/.
set -e
dir=$1 programs=$2 deploy=$3
mount --make-rprivate /
mount -t tmpfs tmpfs "$dir"
mkdir "$dir/up" "$dir/work" "$dir/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/up,workdir=$dir/work" "$dir/root"
cd "$dir/root"
bind() { touch "$2"; mount --bind "$1" "$2"; }
for name in lmaster lslave lshepherd; do bind "$programs/$name" "usr/sbin/$name"; done
for name in lrun lq lconf; do bind "$programs/$name" "usr/bin/$name"; done
mkdir -p etc/systemd/system etc/sysusers.d old
rm -rf etc/limo etc/default/lmaster etc/default/lslave var/lib/limo
cp "$deploy"/systemd/*.service etc/systemd/system/
cp "$deploy/sysusers/limo.conf" etc/sysusers.d/limo-master.conf
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for place in run tmp dev; do mount -t tmpfs tmpfs "$place"; done
for name in null zero full random urandom tty; do cp -a "/dev/$name" dev/; done
mkdir dev/pts dev/shm
mount -t devpts devpts dev/pts
pivot_root . old
cd /
umount -l /old
exec env -i container=limo PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=multi-user.target
