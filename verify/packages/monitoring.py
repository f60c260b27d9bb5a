#!/usr/bin/env python3
"""Alerts and dashboard of deploy/: promtool accepts and tests the alerts, and each metric and label exists.

    verify/packages/monitoring.py
"""
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What Prometheus itself adds.
OF_PROMETHEUS = {'up': set()}
LABELS_OF_PROMETHEUS = {'job', 'instance', 'le'}


def documented():
    """The labels of each metric in docs/reference/metrics.md, which a test compares with a running server."""
    known = dict(OF_PROMETHEUS)
    with open(os.path.join(ROOT, 'docs/reference/metrics.md')) as page:
        for line in page:
            row = re.match(r'\| `(\w+)(?:\{(.*?)\})?` \| (\w+) \|', line)
            if row:
                name, labels, kind = row.groups()
                for end in ('_bucket', '_sum', '_count') if kind == 'histogram' else ('',):
                    known[name + end] = set((labels or '').replace(' ', '').split(',')) - {''}
    return known


def used(expression):
    """Each metric of an expression with the labels that select among its series."""
    for name, labels in re.findall(r'\b((?:strowger|process)_\w+|up)\b(?:\{([^}]*)\})?', expression):
        yield name, set(re.findall(r'(\w+)\s*=~?"', labels)) - LABELS_OF_PROMETHEUS


def expressions():
    with open(os.path.join(ROOT, 'deploy/grafana/strowger.json')) as file:
        dashboard = json.load(file)
    for panel in dashboard['panels']:
        for target in panel['targets']:
            yield 'panel "%s"' % panel['title'], target['expr']
    with open(os.path.join(ROOT, 'deploy/prometheus/strowger.rules.yml')) as file:
        rules = file.read()
    for alert, text in re.findall(r'- alert: (\w+)\n((?: {8}.*\n)+)', rules):
        yield alert, re.search(r'expr: ((?:\|\n(?: {10}.*\n)+)|.*\n)', text).group(1)


def main():
    known, bad, seen = documented(), [], 0
    for where, expression in expressions():
        for name, labels in used(expression):
            seen += 1
            if name not in known:
                bad.append('%s: there is no metric %s' % (where, name))
            elif labels - known[name]:
                bad.append('%s: %s has no label %s' % (where, name, ', '.join(sorted(labels - known[name]))))
    if seen < 20:
        bad.append('only %d metrics were found in the files' % seen)
    folder = os.path.join(ROOT, 'deploy/prometheus')
    for words in (['check', 'config', 'prometheus.yml'], ['check', 'rules', 'strowger.rules.yml'],
                  ['test', 'rules', 'strowger.test.yml']):
        done = subprocess.run(['promtool', *words], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            bad.append('promtool %s:\n%s%s' % (' '.join(words), done.stdout, done.stderr))
    for line in bad:
        print('monitoring:', line, file=sys.stderr)
    print('monitoring: %d uses of metrics, %d faults' % (seen, len(bad)))
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
