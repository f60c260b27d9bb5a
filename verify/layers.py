#!/usr/bin/env python3
"""Check that dependencies between crates point down only, that the core stays pure, and that nothing grows too large.

Reads `cargo metadata` and the sources; says every violation and exits 1 when there is one. Rules for crates:

- a workspace crate depends only on the workspace crates listed for it below;
- nothing that a core crate pulls in, however indirectly, is outside PURE (so no sockets, threads,
  clocks, entropy or C libraries reach the protocol core);
- only shell crates, the binary and the live tests may depend on crates that do I/O.

Dev-dependencies are free: a test may use what it likes.

Rules for production code, with exceptions listed in verify/large.txt:

- the modules of a core crate form no circle;
- a type has at most 60 methods of its own, and one with `&mut self` methods at most 20 fields;
- a function has at most 6 parameters besides self and at most 70 lines.
"""
import json
import pathlib
import subprocess
import sys

import structure

# Who may use whom inside the workspace.
BELOW = {
    'wire': set(),
    'timing': {'wire'},
    'websocket': set(),
    'kernel-programs': set(),
    'sip-message': {'wire'},
    'seal': {'sip-message'},
    'sip-transaction': {'wire', 'timing', 'sip-message'},
    'sip-auth': {'wire', 'sip-message'},
    'sip-registrar': {'wire', 'sip-message'},
    'sip-registration': {'wire', 'sip-message', 'sip-auth'},
    'sip-proxy': {'wire', 'seal', 'sip-message', 'sip-transaction'},
    'sip-steering': {'sip-message', 'kernel-programs'},
    'sip-health': {'wire'},
    'call-forwarding': {'sip-message'},
    'call-records': set(),
    'call-rules': {'sip-message'},
    'number-routes': set(),
    'call-limits': {'number-routes'},
    'sip-node': {
        'wire', 'timing', 'seal', 'sip-message', 'sip-transaction', 'sip-auth', 'sip-registrar', 'sip-proxy',
        'sip-registration', 'sip-steering', 'sip-health', 'call-forwarding', 'call-records', 'call-rules',
        'number-routes', 'call-limits',
    },
    'sip-balancer': {'wire', 'timing', 'seal', 'sip-message', 'sip-proxy', 'sip-steering', 'sip-health'},
    # The shell handles no SIP: of the core it sees only the vocabulary, the wheel for deadlines and the form of
    # programs for the kernel.
    'tls': {'regular-file'},
    'worker-runtime': {'wire', 'timing', 'kernel-programs', 'log-events', 'tls', 'websocket'},
    # ... except the location service and the store, which keep bindings and credentials as the core defines them.
    'location': {'wire', 'sip-registrar', 'log-events'},
    'store': {'wire', 'call-forwarding', 'location', 'sip-registrar', 'sip-auth', 'log-events', 'regular-file'},
    # ... and the call log, whose events and records are those of the core.
    'call-log': {'call-records', 'log-events', 'regular-file'},
    # ... and the reader of route tables, which makes the core's.
    'route-file': {'number-routes', 'regular-file', 'toml-form'},
    # ... and control, whose keys and counters are those of the core: it reads into the core's settings, and names
    # what a node counts.
    'control': {'wire', 'log-events', 'sip-message', 'sip-auth', 'sip-registrar', 'sip-proxy', 'sip-node', 'sip-balancer', 'tls', 'regular-file', 'toml-form'},
    'resolver': {'wire', 'log-events'},
    # ... and tune, whose rules are pure.
    'tune-rules': set(),
    'tune': {'tune-rules', 'regular-file'},
    # Below the whole shell: the log events, how files are opened, and how TOML is read.
    'log-events': set(),
    'regular-file': set(),
    'toml-form': set(),
    # The load generator is a machine like the node; the runtime drives it.
    'load': {'wire', 'timing', 'sip-message', 'sip-auth'},
    'load-runner': {'wire', 'load', 'worker-runtime', 'control', 'tls'},
    # Experiments as data; they read the reports of the generator.
    'lab': {'load', 'toml-form'},
    # Counters and packets of the kernel: the system calls of the lab.
    'lab-kernel': set(),
    # Its echo server and front end are machines of their own on the runtime.
    'lab-runner': {'lab', 'lab-kernel', 'load', 'control', 'regular-file', 'wire', 'sip-message',
                   'worker-runtime'},
}
# Below every crate: it records broken conditions that only a bug can break.
BELOW_ALL = {'invariant'}
# Core and shell meet in these.
MEETING = {'serving', 'strowger', 'simulator', 'live'}

# Third-party crates that do no I/O, with what they need in turn.
PURE = {
    'memchr', 'hashbrown', 'foldhash', 'siphasher', 'sha1', 'sha2', 'digest', 'block-buffer', 'crypto-common',
    'hybrid-array', 'typenum', 'cfg-if', 'cpufeatures', 'const-oid', 'subtle', 'equivalent', 'allocator-api2',
    'generic-array', 'version_check', 'smallvec', 'arrayvec', 'base16ct', 'base64', 'hmac', 'ctutils', 'cmov', 'safe_arch',
    'prefetch-index',
    # cpufeatures asks libc for constants on some targets only; it calls nothing that does I/O.
    'libc',
}
PURE_ONLY_THROUGH = {'libc': {'cpufeatures'}}

METHODS, FIELDS, PARAMETERS, LINES = 60, 20, 6, 70
ROOT = pathlib.Path(__file__).resolve().parent.parent
LARGE = ROOT / 'verify' / 'large.txt'


def measured(folder):
    """What is over a limit in a crate: kind and name, and by how much."""
    crate = structure.Crate(folder)
    name = folder.relative_to(ROOT).as_posix()
    if name.startswith('core/'):
        for circle in crate.circles():
            yield f'circle {name} {"::".join(circle[0]) or "lib"}', len(circle)
    for function in crate.functions():
        place = f'{name} {function.owner + "::" if function.owner else ""}{function.name}'
        if function.parameters > PARAMETERS:
            yield f'parameters {place}', function.parameters
        if function.lines > LINES:
            yield f'lines {place}', function.lines
    structs = crate.structs()
    for owner, methods in crate.methods().items():
        if len(methods) > METHODS:
            yield f'methods {name} {owner}', len(methods)
        fields = structs.get(owner, (0, None))[0]
        if fields > FIELDS and any(method.mutates for method in methods):
            yield f'fields {name} {owner}', fields


def sizes(folders):
    """What is over a limit and not in the list of exceptions, or over what that allows, or in the list without need."""
    allowed = {}
    for line in LARGE.read_text().splitlines():
        if line and not line.startswith('#'):
            what, size = line.split(' = ')[0].rsplit(' ', 1)
            allowed[what] = int(size)
    found = {}
    for folder in folders:
        for what, size in measured(folder):
            found[what] = max(size, found.get(what, 0))
    bad = [f'{what}: {size}' + (f', {allowed[what]} allowed' if what in allowed else '')
           for what, size in found.items() if size > allowed.get(what, 0)]
    bad += [f'{what}: verify/large.txt allows {size}, and it has {found.get(what, "no more than all")}'
            for what, size in allowed.items() if found.get(what, 0) < size]
    return bad


def main():
    out = subprocess.run(['cargo', 'metadata', '--format-version', '1'], check=True, stdout=subprocess.PIPE)
    meta = json.loads(out.stdout)
    packages = {p['id']: p for p in meta['packages']}
    members = {packages[i]['name']: i for i in meta['workspace_members']}
    # Normal and build dependencies by the resolved graph.
    graph = {
        n['id']: {d['pkg'] for d in n['deps'] if any(k['kind'] != 'dev' for k in d['dep_kinds'])}
        for n in meta['resolve']['nodes']
    }
    bad = []
    for name, ident in sorted(members.items()):
        if name in MEETING:
            continue
        if name not in BELOW and name not in BELOW_ALL:
            bad.append(f'{name}: new crate; give it its place in verify/layers.py')
            continue
        core = '/core/' in packages[ident]['manifest_path'].replace('\\', '/')
        for dep in graph[ident]:
            other = packages[dep]['name']
            if other in members and other not in BELOW.get(name, set()) | BELOW_ALL:
                bad.append(f'{name} -> {other}: arrows point down only')
        if core:
            seen, todo = set(), [(ident, name)]
            while todo:
                at, parent = todo.pop()
                for dep in graph[at]:
                    other = packages[dep]['name']
                    if other not in members:
                        if other not in PURE:
                            bad.append(f'{name} -> {other} (through {parent}): not known as free of I/O')
                        elif other in PURE_ONLY_THROUGH and packages[at]['name'] not in PURE_ONLY_THROUGH[other]:
                            bad.append(f'{name} -> {other} (through {packages[at]["name"]}): not allowed there')
                    if dep not in seen:
                        seen.add(dep)
                        todo.append((dep, other))
    bad += sizes([pathlib.Path(packages[i]['manifest_path']).parent for i in members.values()])
    for line in sorted(set(bad)):
        print('layers:', line)
    print(f'layers: {len(members)} crates, {len(set(bad))} violations')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
