"""What balance_paper.py found, beside the paper's numbers: a table, a page with curves, and all figures."""
import html
import json
import os

import charts
import records

# What the paper says in its text (section VI); its curves are given as pictures only.
PAPER_PEAKS = {'tlwl': 2439, 'round-robin': 2135, 'hash': 1954}
PAPER_UNEQUAL = {'tlwl': 438, 'tjsq': 411}
PAPER_AT_200 = {'tlwl': 2, 'tjsq': 2, 'cjsq': 15, 'round-robin': 15, 'hash': 15, 'fnv-hash': 15, 'rwma': 65}
OURS = (('repeated requests cost half a BYE', 'repeats'), ('repeated requests cost nothing', 'paper'),
        ("with the balancer's own defaults", 'defaults'))


def read(path):
    try:
        with open(path) as f:
            return json.load(f)
    except FileNotFoundError:
        return {}


def save(path, state):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + '.new', 'w') as f:
        json.dump(state, f, indent=1)
    os.replace(path + '.new', path)


def by_algorithm(points):
    """Results of (algorithm, load), as {algorithm: {load: result}}."""
    found = {}
    for result in points.values():
        found.setdefault(result['algorithm'], {})[result['load']] = result
    return found


def millis(result):
    return '-' if result is None else '%.3g%s' % (result['invite_ms'], ' (void)' if result['void'] else '')


def response_table(points, paper):
    rows = by_algorithm(points)
    loads = sorted({load for row in rows.values() for load in row})
    head = ['INVITE to 200, mean ms'] + ['%.0f %%' % (100 * load) for load in loads] + (['paper, 8 %'] if paper else [])
    out = [line(head), line(['---'] * len(head))]
    for name, row in rows.items():
        cells = [name] + [millis(row.get(load)) for load in loads]
        out.append(line(cells + ([str(PAPER_AT_200.get(name, ''))] if paper else [])))
    hashed = rows.get('hash', {})
    for name in ('tlwl', 'tjsq'):
        if name in rows and hashed:
            ratio = lambda load: hashed[load]['invite_ms'] / rows[name][load]['invite_ms']
            cells = ['%.3g' % ratio(load) if load in hashed and load in rows[name] else '-' for load in loads]
            out.append(line(['hash / ' + name] + cells + ([''] if paper else [])))
    if hashed:
        # Where these are many the time of those that are answered depends on how long the trial was.
        bad = ['%.2f %%' % (100 * hashed[load]['bad']) if load in hashed else '-' for load in loads]
        out.append(line(['requests of hash that failed or were slow'] + bad + ([''] if paper else [])))
    return out


def line(cells):
    return '| ' + ' | '.join(str(c) for c in cells) + ' |'


def void(found):
    return ' (void)' if any(t['void'] for t in found['trials']) else ''


def least(found):
    """Before a peak that is the highest rate that was tried."""
    return '≥ ' if found['peak'] >= found['ideal'] else ''


def peak(found):
    return '%s%.0f%s' % (least(found), found['peak'], void(found))


def of_ideal(found):
    return '%s%.0f %%' % (least(found), 100 * found['peak'] / found['ideal'])


def more(tlwl, found):
    """By how much the peak of tlwl is higher. Of two that are the highest rate tried nothing is known."""
    if not tlwl or not found['peak'] or found is tlwl:
        return '-'
    if least(tlwl) and least(found):
        return 'not known'
    return '%s%.0f %%' % (least(tlwl), 100 * (tlwl['peak'] / found['peak'] - 1))


def peak_tables(state):
    out = []
    if 'peaks' in state:
        tlwl = state['peaks'].get('tlwl')
        out += ['', line(['peak of 8 servers, calls/s', 'measured', 'of the ideal', 'tlwl has more by', 'paper']), line(['---'] * 5)]
        for name, found in state['peaks'].items():
            out.append(line([name, peak(found), of_ideal(found), more(tlwl, found), PAPER_PEAKS.get(name, '')]))
    if 'scale' in state:
        out += ['', line(['servers', 'peak of tlwl, calls/s', 'of the ideal', 'paper']), line(['---'] * 4)]
        for nodes, found in sorted(state['scale'].items(), key=lambda item: int(item[0])):
            paper = 2439 if nodes == '8' else 'about 300 each'
            out.append(line([nodes, peak(found), of_ideal(found), paper]))
    if 'unequal' in state:
        out += ['', line(['one server and a half', 'peak, calls/s', 'of the ideal', 'INVITE at 280/s, ms', 'calls of the whole one', 'paper']),
                line(['---'] * 6)]
        for name, found in state['unequal'].items():
            at = found['at_280']
            out.append(line([name, peak(found), of_ideal(found), millis(at),
                             '%.0f %%' % (100 * at['shares'][0] / max(sum(at['shares']), 1)), PAPER_UNEQUAL.get(name, '')]))
    return out


def tail(counts):
    """(n, the part that found more than n) until there is none."""
    total, left, out = sum(counts), sum(counts), []
    for n, count in enumerate(counts):
        left -= count
        out.append((n, left / max(total, 1)))
        if not left:
            break
    return out


def occupancy_table(points):
    above = [0, 1, 2, 4, 8, 16, 20, 32]
    out = ['', line(['found more than'] + above + ['at most', 'paper']), line(['---'] * (len(above) + 3))]
    for name, found in points.items():
        part = dict(tail(found['occupancy']))
        paper = '10 % found 5 or more' if name in ('fnv-hash', 'round-robin') else '90 % fewer than 2, never more than 20'
        most = max(part)
        out.append(line([name] + ['%.5f' % part.get(n, 0.0) for n in above] + ['64 or more' if most >= 64 else most, paper]))
    return out


def tables(state):
    out = []
    for title, key in OURS:
        mine = state.get(key, {})
        for name, said in (('response', 'Servers that stall'), ('quiet', 'Servers that never stall')):
            if name in mine:
                out += ['', '%s, %s:' % (said, title), ''] + response_table(mine[name], name == 'response')
        found = peak_tables(mine)
        if 'occupancy' in mine:
            found += occupancy_table(mine['occupancy'])
        out += (['', 'Peaks, scaling, unequal servers and what transactions found unfinished at their server, %s:' % title] + found
                if found else [])
    return out


def pictures(state):
    out = []
    for title, key in OURS:
        mine = state.get(key, {})
        for name, said in (('response', 'servers stall'), ('quiet', 'servers never stall')):
            if name in mine:
                rows = by_algorithm(mine[name])
                lines = [(n, sorted((load * 2400, r['invite_ms']) for load, r in row.items())) for n, row in rows.items()]
                marks = [('the paper, 200/s', [(200, y) for y in sorted(set(PAPER_AT_200.values()))])] if name == 'response' else []
                out.append(charts.curves('INVITE to 200; %s; %s' % (said, title), 'calls/s', 'mean, ms', lines, marks, log_y=True, top_x=2400))
        if 'peaks' in mine:
            rows = [(n, f['peak'], PAPER_PEAKS.get(n), least(f)) for n, f in mine['peaks'].items()]
            out.append(charts.bars('Peak of eight servers; ' + title, 'calls/s', rows, 2400))
        if 'scale' in mine:
            points = sorted((int(n), f['peak']) for n, f in mine['scale'].items())
            out.append(charts.curves('Peak by the number of servers (tlwl; ≥ where it is all that was tried); ' + title, 'servers', 'calls/s', [
                ('tlwl', points), ('300 each', [(0, 0), (10, 3000)])], [('the paper', [(8, 2439)])], top_x=10.5))
        if 'unequal' in mine:
            rows = [(n, f['peak'], PAPER_UNEQUAL.get(n), least(f)) for n, f in mine['unequal'].items()]
            out.append(charts.bars('Peak of one server and a half; ' + title, 'calls/s', rows, 450))
        if 'occupancy' in mine:
            tails = [(n, tail(f['occupancy'])) for n, f in mine['occupancy'].items()]
            cdf = [(n, [(x, 1 - y) for x, y in points]) for n, points in tails]
            out.append(charts.curves('CDF of transactions found unfinished at a server, 4 servers, 600 calls/s; ' + title,
                                     'transactions', 'part that found at most so many', cdf, top_x=20))
            ccdf = [(n, [p for p in points if p[1] > 0]) for n, points in tails]
            out.append(charts.curves('CCDF; ' + title, 'transactions', 'part that found more', ccdf, log_y=True))
    return out


def write(folder, state):
    table = tables(state)
    print('\n'.join(table))
    trials = sum(1 for mine in state.values() for points in mine.values() for r in points.values() for _ in r.get('trials', [r]))
    base = records.write(folder, 'balance-paper', 'The experiments of the load balancer\'s paper', trials, table, state,
                         'each shown as it was')
    with open(base + '.json') as f:
        head = json.load(f)
    said = ''.join('<p>%s: %s</p>' % (name, html.escape(head[name])) for name in ('machine', 'date', 'command'))
    with open(base + '.html', 'w') as f:
        f.write('<!doctype html>\n<meta charset="utf-8">\n<title>The load balancer\'s paper</title>\n<body style="font-family:'
                'sans-serif;max-width:900px;margin:2em auto">\n<h1>The experiments of the load balancer\'s paper</h1>\n%s\n'
                '%s\n<h2>Tables</h2>\n<pre style="font-size:11px">%s</pre>\n' % (
                    said, '\n'.join(pictures(state)), html.escape('\n'.join(table))))
    print('written: %s.html' % base)
