#!/usr/bin/env python3
"""Check that dependencies between crates point down only, and that the core stays pure.

Reads `cargo metadata`; says every violation and exits 1 when there is one. Three rules:

- a workspace crate depends only on the workspace crates listed for it below;
- nothing that a core crate pulls in, however indirectly, is outside PURE (so no sockets, threads,
  clocks, entropy or C libraries reach the protocol core);
- only shell crates, the binary and the live tests may depend on crates that do I/O.

Dev-dependencies are free: a test may use what it likes.
"""
import json
import subprocess
import sys

# Who may use whom inside the workspace.
BELOW = {
    'wire': set(),
    'sip-message': {'wire'},
    'sip-transaction': {'wire', 'sip-message'},
    'sip-auth': {'wire', 'sip-message'},
    'sip-registrar': {'wire', 'sip-message'},
    'sip-proxy': {'wire', 'sip-message', 'sip-transaction'},
    'sip-steering': {'wire', 'sip-message'},
    'sip-health': {'wire'},
    'sip-node': {
        'wire', 'sip-message', 'sip-transaction', 'sip-auth', 'sip-registrar', 'sip-proxy', 'sip-steering',
        'sip-health',
    },
    'sip-balancer': {'wire', 'sip-message', 'sip-proxy', 'sip-steering', 'sip-health'},
    # The shell knows no SIP: of the core it sees only the vocabulary.
    'worker-runtime': {'wire'},
    # ... except the store, which writes down binding records and credentials as the core defines them.
    'store': {'wire', 'sip-registrar', 'sip-auth'},
    'control': {'wire'},
    'resolver': {'wire'},
    # The load generator is a machine like the node; the runtime drives it.
    'load': {'wire', 'sip-message', 'sip-auth'},
    'load-runner': {'wire', 'load', 'worker-runtime', 'control'},
}
# Core and shell meet in these.
MEETING = {'strowger', 'simulator', 'live'}

# Third-party crates that do no I/O, with what they need in turn.
PURE = {
    'memchr', 'hashbrown', 'foldhash', 'siphasher', 'sha2', 'digest', 'block-buffer', 'crypto-common',
    'hybrid-array', 'typenum', 'cfg-if', 'cpufeatures', 'const-oid', 'subtle', 'equivalent', 'allocator-api2',
    'generic-array', 'version_check', 'smallvec', 'arrayvec', 'base16ct', 'hmac', 'ctutils', 'cmov', 'safe_arch',
    'prefetch-index',
    # cpufeatures asks libc for constants on some targets only; it calls nothing that does I/O.
    'libc',
}
PURE_ONLY_THROUGH = {'libc': {'cpufeatures'}}


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
        if name not in BELOW:
            bad.append(f'{name}: new crate; give it its place in verify/layers.py')
            continue
        core = '/core/' in packages[ident]['manifest_path'].replace('\\', '/')
        for dep in graph[ident]:
            other = packages[dep]['name']
            if other in members and other not in BELOW[name]:
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
    for line in sorted(set(bad)):
        print('layers:', line)
    print(f'layers: {len(members)} crates, {len(set(bad))} violations')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
