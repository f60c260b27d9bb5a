#!/usr/bin/env bash
# Make an image of a built program for Docker, Podman and Kubernetes, without anything from a registry.
#
#   deploy/image.sh PROGRAM [NAME[:TAG] [FOLDER]]     default: strowger, the version of Cargo.toml, target/image
#
# Uses the first of docker, podman and buildah that works. Without one, FOLDER has the input for `docker build`.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath -e "${1:?usage: deploy/image.sh PROGRAM [NAME[:TAG] [FOLDER]]}")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=${2:-strowger:$version}
out=${3:-target/image}
say() { printf 'image: %s\n' "$*" >&2; }

authorities=/etc/ssl/certs/ca-certificates.crt
[ -e "$authorities" ] || { say "there is no $authorities: apt-get install ca-certificates"; exit 1; }
rm -rf "$out/root" "$out/root.tar"
mkdir -p "$out/root"/{usr/bin,etc/strowger,etc/ssl/certs,tmp,var/lib/strowger}
cp deploy/image/Containerfile "$out/"
# Without debugging symbols; the built program keeps them.
strip -o "$out/root/usr/bin/strowger" "$program"
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
    install -D "$(realpath "$library")" "$out/root$library"
done
cp "$authorities" "$out/root$authorities"
cp deploy/packaged.toml "$out/root/etc/strowger/strowger.toml"
printf 'root:x:0:0::/:/\nstrowger:x:5060:5060::/var/lib/strowger:/\n' >"$out/root/etc/passwd"
printf 'root:x:0:\nstrowger:x:5060:\n' >"$out/root/etc/group"
printf 'hosts: files dns\n' >"$out/root/etc/nsswitch.conf"
# An archive has owners and modes, also where neither root nor the builder of images would set them.
data=./var/lib/strowger
tar -C "$out/root" --owner=0 --group=0 --mode=u=rwX,go=rX --exclude="$data" --exclude=./tmp -cf "$out/root.tar" .
tar -C "$out/root" --owner=0 --group=0 --mode=1777 -rf "$out/root.tar" ./tmp
tar -C "$out/root" --owner=5060 --group=5060 --mode=0700 -rf "$out/root.tar" "$data"

for builder in docker podman buildah; do
    command -v "$builder" >/dev/null && "$builder" info >/dev/null 2>&1 || continue
    say "$builder build -t $name $out"
    "$builder" build -t "$name" -f "$out/Containerfile" "$out"
    exit
done
say "there is no docker, podman or buildah that works; elsewhere: docker build -t $name -f $out/Containerfile $out"
