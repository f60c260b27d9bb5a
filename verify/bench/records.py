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


def bare(word):
    """A path of this machine alone becomes the name of its file."""
    return os.path.basename(word) if os.path.isabs(word) else word


def command():
    """How this program was called, as from the repository's root: a record names no folder of the machine."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
    words = [os.path.relpath(os.path.abspath(sys.argv[0]), root)] + [bare(word.replace(root, '')) for word in sys.argv[1:]]
    return ' '.join(['python3'] + words)


def write(folder, name, title, reps, table, runs, shown='minimum / median / maximum'):
    """The table for readers, NAME-DATE.md, and all figures, NAME-DATE.json; answers both names without their ends."""
    os.makedirs(folder, exist_ok=True)
    now = datetime.datetime.now(datetime.timezone.utc)
    kept, of = (a - b for a, b in zip(steal(), BEGUN))
    machine = '%s, %d cores, Linux %s; the host kept %.1f %% of the processors\' time' % (
        processor(), os.cpu_count() or 1, platform.release(), 100.0 * kept / max(of, 1))
    said = command()
    base = os.path.join(folder, '%s-%s' % (name, now.strftime('%Y%m%d-%H%M')))
    with open(base + '.md', 'w') as f:
        f.write('# %s\n\n- machine: %s\n- date: %s\n- command: `%s`\n- runs: %d; %s\n\n' % (
            title, machine, now.strftime('%Y-%m-%d %H:%M UTC'), said, reps, shown))
        f.write('\n'.join(table) + '\n')
    with open(base + '.json', 'w') as f:
        json.dump(dict(machine=machine, date=now.isoformat(), command=said, runs=runs), f, indent=1)
    print('written: %s.md, %s.json' % (base, base))
    return base


COLOURS = ('#06c', '#c40', '#093', '#888')


def plot(path, x_name, y_name, curves):
    """An SVG of these curves: (name, [(x, y), ...]) each."""
    width, height, pad = 760, 340, 60
    top_x = max(x for _, points in curves for x, _ in points) or 1
    top_y = max(y for _, points in curves for _, y in points) * 1.05 or 1
    at = lambda x, y: '%.1f,%.1f' % (pad + x / top_x * (width - 2 * pad), height - pad - y / top_y * (height - 2 * pad))
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" font-family="sans-serif" font-size="11">' % (
        width, height, width), '<rect width="100%" height="100%" fill="#fff"/>',
        '<path d="M%d %dV%dH%d" fill="none" stroke="#000"/>' % (pad, pad, height - pad, width - pad)]
    for n in range(6):
        (x, _), (_, y) = at(top_x * n / 5, 0).split(','), at(0, top_y * n / 5).split(',')
        out.append('<text x="%s" y="%d" text-anchor="middle">%.4g</text>' % (x, height - pad + 16, top_x * n / 5))
        out.append('<text x="%d" y="%s" text-anchor="end">%.4g</text>' % (pad - 6, y, top_y * n / 5))
    out.append('<text x="%d" y="%d" text-anchor="middle">%s</text>' % (width / 2, height - 14, x_name))
    out.append('<text x="%d" y="%d">%s</text>' % (pad, pad - 12, y_name))
    for (name, points), colour, row in zip(curves, COLOURS, range(len(curves))):
        out.append('<polyline points="%s" fill="none" stroke="%s"/>' % (' '.join(at(x, y) for x, y in points), colour))
        out.append('<text x="%d" y="%d" fill="%s" text-anchor="end">%s</text>' % (width - pad, pad + 14 * row, colour, name))
    with open(path, 'w') as f:
        f.write('\n'.join(out) + '\n</svg>\n')
