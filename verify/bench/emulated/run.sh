#!/usr/bin/env bash
# What a call costs in instructions, kernel included, where the machine has no counters for them.
#
#   verify/bench/emulated/run.sh BIN FILE.toml [options of strowger lab run]
#   verify/bench/emulated/run.sh BIN generators [options of generators.py]
#   verify/bench/emulated/run.sh BIN self-test [options of strowger load]
#
# An experiment runs once (repetitions = 1); its microseconds of processor time are thousand instructions.
#
# Most virtual machines hide the processor's counters, so that `make bench` gives times only. Here the same
# servers and calls run in a machine that QEMU emulates, with one processor whose clock moves by one
# nanosecond for each instruction (-icount shift=0). What its kernel accounts to a process as time on the
# processor is then its instructions, those of system calls and of packets' delivery included, and does not
# depend on what else this machine does. The guest boots a kernel of this system's packages and sees this
# machine's files read-only; what it writes stays in its memory.
#
# The emulator counts each step of a repeated string instruction, where a counter counts the whole as one: the
# processor is one without fast strings, so that copies go by words and not by bytes.
#
# It is about fifty times slower than life. SIPp's two sides cost more than a server, so that 1,000 calls a
# second of the emulated clock need `strowger load`; with SIPp, 300. Judge by ratios.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
bin=$(realpath "${1:?the strowger binary}")
shift
case "${1:-}" in
generators) shift && job=(python3 -u "$here/../generators.py" --bin "$bin" --emulated) ;;
self-test) shift && job=("$bin" load --self-test --workers 1) ;;
*.toml)
    # A verdict needs more repetitions; only a part that does not start is a failure.
    experiment=$(realpath "$1") && shift
    job=(bash -c '"$0" lab run "$@"; test $? -ne 2' "$bin" "$experiment" --out /tmp/emulated.lab --set repetitions=1
        --set warm_up=3s --set measure=2s --set "workload.options=['--lateness', '1000']") ;;
*) echo "$0: an experiment (FILE.toml), generators or self-test" >&2 && exit 2 ;;
esac
cache=$root/.cache/kernel
for tool in busybox cpio qemu-system-x86_64; do
    command -v "$tool" >/dev/null || { echo "$tool is missing; \`make setup-emulation\` installs it" >&2 && exit 1; }
done

# Two machines may start side by side on a machine that has no kernel for them yet: one fetches it. It is there when
# the whole of it is.
mkdir -p "$(dirname "$cache")"
exec 9>"$cache.lock"
flock 9
if [ ! -e "$cache/whole" ]; then
    package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
    echo "apt-get download $package, unpacked into .cache/kernel (not installed)" >&2
    rm -rf "$cache"
    mkdir -p "$cache"
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
{ printf exec && printf ' %q' "${job[@]}" "$@"; } >"$first/job"
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
ip link set lo up
cp /job /new/run/emulated-job
PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin chroot /new /bin/bash /run/emulated-job && echo job: ended well
poweroff -f
EOF
chmod +x "$first/init"
(cd "$first" && find . | cpio -o -H newc --quiet | gzip -1) >"$scratch/first.img"

# shellcheck disable=SC2086  (several words)
qemu-system-x86_64 ${EMULATOR_OPTIONS:-} -machine pc,accel=tcg -cpu max,-erms,-fsrm -icount shift=0,sleep=off -smp 1 -m 5000 \
    -display none -serial stdio -no-reboot -kernel "$cache/boot/vmlinuz-$version" -initrd "$scratch/first.img" \
    -append "console=ttyS0 quiet loglevel=3 tsc=reliable clocksource=tsc mitigations=off panic=-1 nokaslr" \
    -virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap </dev/null | tee "$scratch/said"
grep -q '^job: ended well' "$scratch/said"
