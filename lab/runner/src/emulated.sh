# Runs a program in a machine that QEMU emulates, with one processor whose clock moves by one nanosecond for each
# instruction (-icount shift=0): what its kernel accounts to a process as time is then its instructions, those of
# system calls and of packets' delivery included.
#
#   emulated.sh CACHE OUT PROGRAM [ARGUMENT...]
#
# CACHE keeps the kernel, a package of this system. The machine sees this one's files read-only; what it writes is
# lost, except below the folder OUT.
#
# The emulator counts each step of a repeated string instruction, where a counter counts the whole as one: the
# processor is one without fast strings, so that copies go by words and not by bytes.
set -euo pipefail
cache=$1 out=$2
shift 2
for tool in busybox cpio qemu-system-x86_64; do
    command -v "$tool" >/dev/null || { echo "$tool is missing; install busybox-static, cpio and qemu-system-x86" >&2 && exit 1; }
done

# Two machines may start side by side: one fetches the kernel. It is there when the whole of it is.
mkdir -p "$(dirname "$cache")" "$out"
exec 9>"$cache.lock"
flock 9
if [ ! -e "$cache/whole" ]; then
    package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
    echo "apt-get download $package, unpacked into $cache (not installed)" >&2
    # Only what an earlier attempt left half done: the folder may be anybody's.
    if [ -n "$(ls -A "$cache" 2>/dev/null)" ] && [ ! -e "$cache/begun" ]; then
        echo "$cache has other files: name another folder in STROWGER_KERNEL_CACHE" >&2
        exit 2
    fi
    rm -rf "$cache"
    mkdir -p "$cache"
    touch "$cache/begun"
    (cd "$cache" && apt-get download -q "$package" >/dev/null && dpkg -x "$package"*.deb . && rm "$package"*.deb && touch whole)
fi
flock -u 9
exec 9>&-
version=$(ls "$cache/lib/modules")
modules="virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci netfs fscache 9pnet
    9pnet_virtio 9p overlay"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
first=$scratch/first
mkdir -p "$first"/{bin,dev,proc,sys,modules,low,up,new}
cp "$(command -v busybox)" "$first/bin/busybox"
for module in $modules; do
    # What is built into the kernel is no file.
    find "$cache/lib/modules/$version" -name "$module.ko" -exec cp -n {} "$first/modules/" \;
done
{ printf 'cd %q && export STROWGER_EMULATED=1 && exec' "$PWD" && printf ' %q' "$@"; } >"$first/job"
printf "%s" "$out" >"$first/folder"
cat >"$first/init" <<EOF
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs devtmpfs /dev
for module in $(echo $modules); do [ ! -e /modules/\$module.ko ] || insmod /modules/\$module.ko; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 root /low
mount -t tmpfs -o size=3g tmpfs /up
mkdir /up/upper /up/work
mount -t overlay -o lowerdir=/low,upperdir=/up/upper,workdir=/up/work overlay /new
mount -t proc proc /new/proc; mount -t sysfs sysfs /new/sys; mount -t devtmpfs devtmpfs /new/dev
mkdir -p /new/dev/shm /new/dev/pts
mount -t tmpfs tmpfs /new/dev/shm; mount -t devpts devpts /new/dev/pts
mkdir -p "/new\$(cat /folder)"
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 out "/new\$(cat /folder)"
ip link set lo up
cp /job /new/run/emulated-job
PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin chroot /new /bin/bash /run/emulated-job; echo "job: ended with \$?"
poweroff -f
EOF
chmod +x "$first/init"
(cd "$first" && find . | cpio -o -H newc --quiet | gzip -1) >"$scratch/first.img"

# shellcheck disable=SC2086  (several words)
qemu-system-x86_64 ${EMULATOR_OPTIONS:-} -machine pc,accel=tcg -cpu max,-erms,-fsrm -icount shift=0,sleep=off -smp 1 -m 5000 \
    -display none -serial stdio -no-reboot -kernel "$cache/boot/vmlinuz-$version" -initrd "$scratch/first.img" \
    -append "console=ttyS0 quiet loglevel=3 tsc=reliable clocksource=tsc mitigations=off panic=-1 nokaslr" \
    -virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
    -virtfs "local,path=$out,mount_tag=out,security_model=none,multidevs=remap" </dev/null | tee "$scratch/said"
status=$(sed -n 's/^job: ended with \([0-9]*\).*/\1/p' "$scratch/said" | tail -1)
exit "${status:-1}"
