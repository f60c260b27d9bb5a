"""What several benchmarks share: spreads, memory, and a record of a run with machine, date and command."""
import datetime
import json
import os
import platform
import statistics
import sys


def spread(runs, key, form):
    """Minimum, median and maximum as text; one figure where all are the same."""
    values = sorted(r[key] for r in runs if key in r)
    if not values:
        return '-'
    said = [form % v for v in (values[0], statistics.median(values), values[-1])]
    return said[0] if len(set(said)) == 1 else ' / '.join(said)


def memory_kb(pids):
    """Proportional memory of these processes in kB, shared parts once."""
    total = 0
    for pid in pids:
        try:
            with open('/proc/%d/smaps_rollup' % pid) as f:
                total += next(int(line.split()[1]) for line in f if line.startswith('Pss:'))
        except (OSError, StopIteration):
            continue
    return total


def processor():
    try:
        with open('/proc/cpuinfo') as f:
            return next(line.split(':')[1].strip() for line in f if line.startswith('model name'))
    except (OSError, StopIteration):
        return platform.processor() or 'unknown processor'


def steal():
    """Jiffies that the host of a virtual machine kept so far, and all of them."""
    with open('/proc/stat') as f:
        fields = [int(x) for x in f.readline().split()[1:9]]
    return fields[7], sum(fields)


BEGUN = steal()


def write(folder, name, title, reps, table, runs):
    """The table for readers, NAME-DATE.md, and all figures, NAME-DATE.json."""
    os.makedirs(folder, exist_ok=True)
    now = datetime.datetime.now(datetime.timezone.utc)
    kept, of = (a - b for a, b in zip(steal(), BEGUN))
    machine = '%s, %d cores, Linux %s; the host kept %.1f %% of the processors\' time' % (
        processor(), os.cpu_count() or 1, platform.release(), 100.0 * kept / max(of, 1))
    command = ' '.join(['python3', os.path.relpath(sys.argv[0])] + sys.argv[1:])
    base = os.path.join(folder, '%s-%s' % (name, now.strftime('%Y%m%d-%H%M')))
    with open(base + '.md', 'w') as f:
        f.write('# %s\n\n- machine: %s\n- date: %s\n- command: `%s`\n- runs: %d; minimum / median / maximum\n\n' % (
            title, machine, now.strftime('%Y-%m-%d %H:%M UTC'), command, reps))
        f.write('\n'.join(table) + '\n')
    with open(base + '.json', 'w') as f:
        json.dump(dict(machine=machine, date=now.isoformat(), command=command, runs=runs), f, indent=1)
    print('written: %s.md, %s.json' % (base, base))
