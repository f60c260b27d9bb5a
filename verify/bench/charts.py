"""Curves and bars as SVG, for pages without scripts. Standard library only."""
import html
import math

COLOURS = ('#06c', '#093', '#c40', '#90c', '#b80', '#088', '#c06', '#555', '#694', '#26f')
WIDTH, HEIGHT, PAD, KEY = 780, 360, 62, 150


class Axis:
    """From figures to places between `low` and `high`, linear or logarithmic, with its ticks."""

    def __init__(self, values, low, high, log=False, top=None):
        values = [v for v in values if v is not None and (v > 0 or not log)] or [1]
        self.low, self.high, self.log = low, high, log
        if log:
            self.least = 10.0 ** math.floor(math.log10(min(values)))
            self.most = 10.0 ** math.ceil(math.log10(max(max(values), self.least * 1.01)))
        else:
            self.least, self.most = 0.0, top or max(values) * 1.08 or 1.0

    def at(self, value):
        if self.log:
            part = math.log10(max(value, self.least) / self.least) / math.log10(self.most / self.least)
        else:
            part = value / self.most
        return self.low + (self.high - self.low) * min(part, 1.0)

    def ticks(self):
        if self.log:
            n = round(math.log10(self.most / self.least))
            return [self.least * 10.0 ** i for i in range(n + 1)]
        step = 10.0 ** math.floor(math.log10(self.most / 4))
        step *= next(m for m in (1, 2, 5, 10) if self.most / (step * m) <= 6)
        return [step * i for i in range(int(self.most / step) + 1)]


def frame(title, x_name, y_name, x, y, body):
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" font-family="sans-serif" '
           'font-size="11">' % (WIDTH, HEIGHT, WIDTH), '<rect width="100%" height="100%" fill="#fff"/>',
           '<text x="%d" y="18" font-size="13" font-weight="bold">%s</text>' % (PAD, html.escape(title))]
    for tick in y.ticks():
        at = y.at(tick)
        out.append('<path d="M%d %.1fH%d" stroke="#ddd"/>' % (PAD, at, WIDTH - KEY))
        out.append('<text x="%d" y="%.1f" text-anchor="end">%.4g</text>' % (PAD - 6, at + 4, tick))
    for tick in x.ticks() if x else []:
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%.4g</text>' % (x.at(tick), HEIGHT - PAD + 30, tick))
    out.append('<path d="M%d %dV%dH%d" fill="none" stroke="#000"/>' % (PAD, 34, HEIGHT - PAD + 14, WIDTH - KEY))
    out.append('<text x="%d" y="%d" text-anchor="middle">%s</text>' % (
        (PAD + WIDTH - KEY) // 2, HEIGHT - 10, html.escape(x_name)))
    out.append('<text x="%d" y="31" fill="#333">%s</text>' % (PAD + 4, html.escape(y_name)))
    return '\n'.join(out + body) + '\n</svg>\n'


def curves(title, x_name, y_name, lines, marks=(), log_y=False, log_x=False, top_x=None):
    """`lines`: (name, [(x, y), ...]); `marks`: (name, [(x, y), ...]) of somebody else, drawn as crosses."""
    points = [p for _, ps in list(lines) + list(marks) for p in ps]
    x = Axis([p[0] for p in points], PAD, WIDTH - KEY, log_x, top_x)
    y = Axis([p[1] for p in points], HEIGHT - PAD + 14, 44, log_y)
    body = []
    for nth, (name, ps) in enumerate(lines):
        colour = COLOURS[nth % len(COLOURS)]
        places = ['%.1f,%.1f' % (x.at(a), y.at(b)) for a, b in ps]
        body.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="1.6"/>' % (' '.join(places), colour))
        body += ['<circle cx="%s" cy="%s" r="2.4" fill="%s"/>' % (*place.split(','), colour) for place in places]
        body.append('<text x="%d" y="%d" fill="%s">%s</text>' % (
            WIDTH - KEY + 10, 52 + 15 * nth, colour, html.escape(name)))
    for nth, (name, ps) in enumerate(marks):
        for a, b in ps:
            at = (x.at(a), y.at(b))
            body.append('<path d="M%.1f %.1fl8 8m0 -8l-8 8" stroke="#000" stroke-width="1.4"/>' % (at[0] - 4, at[1] - 4))
        body.append('<text x="%d" y="%d">× %s</text>' % (
            WIDTH - KEY + 10, 60 + 15 * (len(lines) + nth), html.escape(name)))
    return frame(title, x_name, y_name, x, y, body)


def bars(title, y_name, rows, ideal=None):
    """`rows`: (name, ours, the paper's or None, what to write before ours)."""
    y = Axis([v for row in rows for v in row[1:3] if v] + ([ideal] if ideal else []), HEIGHT - PAD + 14, 44)
    step = (WIDTH - KEY - PAD) / max(len(rows), 1)
    body = []
    for nth, (name, ours, theirs, mark) in enumerate(rows):
        left = PAD + step * nth
        for place, (value, colour) in enumerate(((ours, COLOURS[0]), (theirs, '#999'))):
            if value:
                body.append('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>' % (
                    left + step * (0.14 + 0.37 * place), y.at(value), step * 0.34, HEIGHT - PAD + 14 - y.at(value), colour))
                body.append('<text x="%.1f" y="%.1f" text-anchor="middle" font-size="9">%s%.0f</text>' % (
                    left + step * (0.31 + 0.37 * place), y.at(value) - 3, '' if place else mark, value))
        body.append('<text x="%.1f" y="%d" text-anchor="middle" font-size="10">%s</text>' % (
            left + step / 2, HEIGHT - PAD + 30, html.escape(name)))
    if ideal:
        body.append('<path d="M%d %.1fH%d" stroke="#c40" stroke-dasharray="5 4"/>' % (PAD, y.at(ideal), WIDTH - KEY))
        body.append('<text x="%d" y="%.1f" fill="#c40">ideal %.0f</text>' % (WIDTH - KEY + 10, y.at(ideal) + 4, ideal))
    for nth, (name, colour) in enumerate((('measured', COLOURS[0]), ('the paper', '#999'))):
        body.append('<text x="%d" y="%d" fill="%s">%s</text>' % (WIDTH - KEY + 10, 120 + 15 * nth, colour, name))
    return frame(title, '', y_name, None, y, body)
