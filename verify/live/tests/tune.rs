//! `strowger tune` on a real kernel, in namespaces of its own: settings of this machine stay as they are.

use live::binary;
use std::process::{Command, Output, Stdio};

/// Plants faults, and has them found, mended, verified and undone. `$1` is the program, `$2` an empty folder.
const SCRIPT: &str = r#"
set -eu
strowger=$1 work=$2
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /etc/sysctl.d
touch "$work/sysctl.conf"
[ ! -e /etc/sysctl.conf ] || mount --bind "$work/sysctl.conf" /etc/sysctl.conf
ip link set lo up
ip link add va type veth peer name vb
ip link set va up
ip link set vb up

set_() { printf '%s\n' "$2" > "/proc/sys/net/$1"; }
everything() {
    grep -rs '' /proc/sys/net /sys/class/net/va/queues/rx-0/rps_cpus /etc/sysctl.d | grep -v nf_conntrack_count | sort
}
must() { grep -qF -- "$1" "$work/said" || { echo "MISSING: $1"; cat "$work/said"; exit 1; }; }
status() { wanted=$1; shift; got=0; "$@" > "$work/said" 2>&1 || got=$?
    [ "$got" = "$wanted" ] || { echo "EXIT $got, not $wanted: $*"; cat "$work/said"; exit 1; }; }
same() { everything > "$work/now"; diff "$work/$1" "$work/now" || { echo "CHANGED: $2"; exit 1; }; }

set_ core/somaxconn 128
set_ ipv4/tcp_max_syn_backlog 512
set_ ipv4/tcp_syncookies 0
set_ ipv4/tcp_abort_on_overflow 1
set_ ipv4/tcp_timestamps 0
set_ ipv4/tcp_sack 0
set_ ipv4/tcp_window_scaling 0
set_ ipv4/tcp_rmem "4096 8388608 16777216"
set_ ipv4/tcp_wmem "4096 8388608 16777216"
set_ ipv4/tcp_keepalive_time 14400
set_ ipv4/tcp_max_tw_buckets 100
set_ ipv4/ip_local_port_range "1024 65535"
set_ ipv4/udp_rmem_min 16777216
# A user namespace may not.
if echo 1 2>/dev/null > /sys/class/net/va/queues/rx-0/rps_cpus; then rps="RPS of va moves packets"; else rps=PROBLEM; fi
# Such a card has one queue at first, and may have one for each processor.
queues=PROBLEM
[ "$(nproc)" = 1 ] || queues="va has 1 queues for 2 workers, and may have"
cat > /etc/sysctl.d/60-copied.conf <<'END'
net.ipv4.udp_mem = 19257652 19257652 19257652
net.ipv4.tcp_tw_recycle = 1
net.core.rmem_default = 26214400
END
printf 'workers = 2\nlisten = ["udp:127.0.0.1:5060", "tcp:127.0.0.1:5062"]\n' > "$work/strowger.toml"
everything > "$work/before"
tune="$strowger tune --config $work/strowger.toml --journal $work/journal"

status 1 $tune
for fault in "net.core.somaxconn allows 128" "net.ipv4.tcp_max_syn_backlog allows 512" "net.ipv4.tcp_syncookies is 0" \
    "net.ipv4.tcp_abort_on_overflow is 1" "net.ipv4.tcp_timestamps is 0" "net.ipv4.tcp_sack is 0" \
    "net.ipv4.tcp_window_scaling is 0" "net.ipv4.tcp_rmem starts each connection with 8 MiB" \
    "net.ipv4.tcp_wmem starts each connection with 8 MiB" "holds its connection for 240 minutes" \
    "net.ipv4.tcp_max_tw_buckets is 100" "outgoing connections may take the SIP ports 5060, 5062" \
    "net.ipv4.udp_rmem_min is 16 MiB" "$rps" "$queues" "60-copied.conf:1 sets net.ipv4.udp_mem" \
    "60-copied.conf:2 sets net.ipv4.tcp_tw_recycle" "60-copied.conf:3 sets net.core.rmem_default"; do
    must "$fault"
done
# Settings of the machine are not visible in this namespace.
must "not seen: net.ipv4.udp_mem"
must "only in the network namespace of the host"
status 1 $tune --output json
must '"level": "unseen"'
status 0 $tune --script
must "sysctl -q -w 'net.core.somaxconn=4096'"
same before "a report changed something"

bare="setpriv --bounding-set=-all --inh-caps=-all"
if setpriv --reuid=65534 --clear-groups true 2>/dev/null; then bare="$bare --reuid=65534 --clear-groups"; fi
if $bare test -x "$strowger"; then
    status 1 $bare $strowger tune
    must "CAP_NET_ADMIN"
    case $bare in
    *reuid*)
        must "this process runs as user 65534, not as root"
        status 1 $bare $strowger tune apply --journal "$work/other"
        [ ! -e "$work/other" ] || { echo "a journal without a change"; exit 1; }
        ;;
    esac
    same before "a run without privileges changed something"
fi

status 0 $tune apply
must "no file is written"
must "changed  net.core.somaxconn: 128 -> 4096"
status 0 $tune apply tcp_keepalive packet_steering queues
[ "$(nproc)" = 1 ] || must "changed  va rx-channels: 1 -> 2"
[ "$(nproc)" = 1 ] || [ -e /sys/class/net/va/queues/rx-1 ]
status 0 $tune verify
# What is left is not seen from here, or in files of others.
status 1 $tune
! grep "^PROBLEM\|^ADVICE" "$work/said" | grep -v sysctl_files || exit 1
status 0 $tune undo
must "restored net.core.somaxconn: 128"
[ ! -e /sys/class/net/va/queues/rx-1 ]
same before "undo did not restore everything"
[ ! -e "$work/journal" ] || { echo "the journal is left"; exit 1; }

# Another program changes a value in between.
status 0 $tune apply
set_ ipv4/tcp_max_syn_backlog 777
status 1 $tune verify
must "changed  net.ipv4.tcp_max_syn_backlog: 777"
status 1 $tune undo
must "left     net.ipv4.tcp_max_syn_backlog: 777"
must "it was 512 before"
set_ ipv4/tcp_max_syn_backlog 512
same before "undo did not restore the others"
# In most containers /proc/sys is read only.
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
status 1 $tune
must "make the change on the host"
status 1 $tune apply
must "not here net.core.somaxconn: 4096 wanted"
same before "apply changed something that it reported as read only"
[ ! -e "$work/journal" ] || { echo "a journal without a change"; exit 1; }
echo ALL SEEN
"#;

/// Runs the script in namespaces of its own; where they are not allowed, in a user namespace too.
fn in_namespaces(folder: &std::path::Path) -> Option<Output> {
    for more in [&[][..], &["--user", "--map-root-user"][..]] {
        let unshare = |command: &[&str]| {
            let mut unshare = Command::new("unshare");
            unshare
                .args(more)
                .args(["--net", "--mount", "--pid", "--fork", "--mount-proc"])
                .args(command)
                .stdin(Stdio::null());
            unshare
        };
        let allowed = unshare(&["mount", "-t", "sysfs", "sysfs", "/sys"]).stderr(Stdio::null()).status();
        if allowed.is_ok_and(|status| status.success()) {
            let mut script = unshare(&["sh", "-c", SCRIPT, "tune"]);
            return Some(script.arg(binary()).arg(folder).output().unwrap());
        }
    }
    None
}

#[test]
fn tune_finds_mends_and_undoes_faults_of_a_kernel() {
    let folder = std::env::temp_dir().join(format!("strowger-tune-live-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let Some(out) = in_namespaces(&folder) else {
        eprintln!("tune on a kernel: NOT CHECKED, this user may not make namespaces");
        return;
    };
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && said.ends_with("ALL SEEN\n"),
        "{said}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn tune_usage_errors_exit_with_two() {
    let wrong: &[&[&str]] = &[
        &["--bogus"],
        &["explain", "nonsense"],
        &["apply", "nonsense"],
        &["--connections", "many"],
        &["--rate", "0"],
        // Nothing can be seen there, which must not look as if all was well.
        &["--root", "/nonexistent"],
        &["--root", "/nonexistent", "apply"],
    ];
    for args in wrong {
        let out = Command::new(binary()).arg("tune").args(*args).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
    let list = Command::new(binary()).args(["tune", "explain"]).output().unwrap();
    let items = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(list.status.success() && items.lines().count() >= 30, "{items}");
    for name in items.lines().filter_map(|line| line.split_whitespace().next()) {
        let page = Command::new(binary()).args(["tune", "explain", name]).output().unwrap();
        let page = String::from_utf8_lossy(&page.stdout).into_owned();
        assert!(page.starts_with(name) && page.contains("Not touched: "), "{page}");
    }
}
