"""The workload `mixed` for `strowger load`: two scenarios of all kinds, a line of data for each call, the registrations.

A line says which steps its call takes on both sides, so that one process plays all kinds in the order of the lines, and
the same seed gives the same calls.
"""
import itertools
import os
import random
import socket
import time
from xml.sax.saxutils import quoteattr

from . import table
from .table import Person, Places, call_values

# Of 100 calls so many are of this flow. An assumption: nobody publishes such shares for all sites.
FLOWS = {
    'call': (56, 'INVITE 180 200 ACK BYE 200'),
    'hold': (9, 'the same with a re-INVITE that holds'),
    'info': (5, 'the same with an INFO that has a digit'),
    'cancel': (10, 'INVITE 180 CANCEL 200 487 ACK'),
    'busy': (6, 'INVITE 486 ACK'),
    'message': (4, 'MESSAGE 200'),
    'register': (10, 'REGISTER 200, a refresh'),
}
# Which request a kind must have for a flow.
NEEDS = {'info': 'N', 'message': 'M', 'register': 'R'}
CALLEES, CALLERS, REFRESHERS = 1000, 4000, 400
# Milliseconds: from the provisional response to the answer, from there to the next request, from 180 to CANCEL.
ANSWERS, TALKS, GIVES_UP = 200, 50, 100
SEED = 1
# Fields that each line has: called and calling user, steps of both sides, Call-ID.
PEER, USER, CALLER_AT, CALLEE_AT, MIDDLE_AT, BYE_AT, CALL_ID, OWN = range(8)


def escaped(line):
    """A line of a table as one of a scenario: brackets and blanks at its ends written as bytes."""
    line = line.replace('[', '\\x5b')
    line = '\\x20' + line[1:] if line.startswith(' ') else line
    return line[:-1] + '\\x20' if line.endswith(' ') else line


class Fields:
    """The fields of the lines of one kind on one side, numbered as they are asked for."""

    def __init__(self, kind):
        known = set(kind.tokens) | set(kind.user_tokens) | {'tag', 'rtp', 'rtcp'}
        known |= {'branch%d' % n for n in range(table.BRANCHES)} | {'cseq%d' % n for n in range(3)}
        self.known, self.names, self.bases = known, [], set()

    def number(self, name):
        if name.split('+')[0] not in self.known:
            return None
        if name not in self.names:
            self.names.append(name)
            self.bases.add(name.split('+')[0])
        return self.names.index(name)


class Keywords(Places):
    """Places of a message filled with the generator's keywords."""

    literal = staticmethod(escaped)

    def __init__(self, kind, flag, fields, offset, atoms, **which):
        super().__init__(kind, flag, **which)
        self.fields, self.offset, self.atoms = fields, offset, atoms

    def atom(self, name):
        if name in self.atoms:
            return self.atoms[name]
        number = self.fields.number(name)
        return None if number is None else '[field%d]' % (self.offset + number)


BOTH = {'domain': '[domain]', 'ip': '[local_ip]', 'me': '[local_ip]:[local_port]', 'proxy': '[remote_ip]:[remote_port]',
        'peer-ip': '[remote_ip]', 'len': '[len]', 'call-id': '[call_id]'}
CALLER = dict(BOTH, user='[field%d]' % USER, peer='[field%d]' % PEER, routes='[routes]', target='[next_url]')
CALLER['peer-tag'] = '[peer_tag_param]'
CALLEE = dict(BOTH, user='[field%d]' % PEER, peer='[field%d]' % USER, rr='[$rr]')


class Steps:
    """A scenario under way."""

    def __init__(self):
        self.lines, self.count = [], 0

    def add(self, text):
        self.lines.append(text)
        self.count += 1

    def label(self, name):
        self.lines.append('<label id="%s"/>' % name)

    def send(self, lines, retrans=False, after=''):
        self.add('<send%s%s>\n<![CDATA[\n%s\n\n]]>\n</send>' % (
            ' retrans="500"' if retrans else '', ' next="%s"' % after if after else '', '\n'.join(lines)))

    def recv(self, what, number, optional=False, more='', actions=''):
        body = '<action>%s</action></recv>' % actions if actions else '</recv>'
        self.add('<recv %s="%s"%s%s>%s' % (what, number, ' optional="true"' if optional else '', more, body))

    def pause(self, milliseconds):
        if milliseconds:
            self.add('<pause milliseconds="%d"/>' % milliseconds)

    def jump(self, field):
        self.add('<nop><action><assignstr assign_to="at" value="[field%d]"/><todouble assign_to="step" variable="at"/>'
                 '<jump variable="step"/></action></nop>' % field)

    def text(self, name):
        return '<?xml version="1.0" encoding="UTF-8" ?>\n<scenario name="%s">\n%s\n</scenario>\n' % (name, '\n'.join(self.lines))


# ---------------------------------------------------------------- callers
class Callers:
    """The callers' scenario, and where each flow of each kind begins."""

    def __init__(self, kinds):
        self.steps, self.starts, self.fields = Steps(), {}, {}
        self.steps.jump(CALLER_AT)
        for kind in kinds:
            self.fields[kind.name] = Fields(kind)
            for flow in FLOWS:
                if flow in NEEDS and not kind.can(NEEDS[flow]):
                    continue
                self.starts[kind.name, flow] = self.steps.count
                getattr(self, flow)(kind)
        self.steps.label('end')

    def request(self, kind, flag, branch=0, cseq=0, **how):
        give = Keywords(kind, flag, self.fields[kind.name], OWN, CALLER, branch=branch, cseq=cseq)
        lines = kind.request(flag, give)
        self.steps.send(lines, retrans=flag not in 'AX', **how)

    def ringing(self, kind):
        self.request(kind, 'I')
        for status in (100, 180, 183):
            self.steps.recv('response', status, optional=True)

    def answered(self, kind):
        self.ringing(kind)
        self.steps.recv('response', 200, more=' rrs="true"')
        self.request(kind, 'A', branch=1)
        self.steps.pause(TALKS)

    def ends(self, kind, cseq):
        self.request(kind, 'B', branch=2, cseq=cseq)
        self.steps.recv('response', 200, more=' next="end"')

    def call(self, kind):
        self.answered(kind)
        self.ends(kind, 1)

    def hold(self, kind):
        self.answered(kind)
        self.request(kind, 'r', branch=3, cseq=1)
        self.steps.recv('response', 100, optional=True)
        self.steps.recv('response', 200)
        self.request(kind, 'A', branch=4, cseq=1)
        self.steps.pause(TALKS)
        self.ends(kind, 2)

    def info(self, kind):
        self.answered(kind)
        self.request(kind, 'N', branch=3, cseq=1)
        self.steps.recv('response', 200)
        self.steps.pause(TALKS)
        self.ends(kind, 2)

    def cancel(self, kind):
        self.request(kind, 'I')
        self.steps.recv('response', 100, optional=True)
        self.steps.recv('response', '^18.$', more=' regexp_match="true"')
        self.steps.pause(GIVES_UP)
        self.request(kind, 'C')
        self.steps.recv('response', 200, optional=True)
        self.steps.recv('response', 487)
        self.request(kind, 'X', after='end')

    def busy(self, kind):
        self.request(kind, 'I')
        self.steps.recv('response', 100, optional=True)
        self.steps.recv('response', 486)
        self.request(kind, 'X', after='end')

    def message(self, kind):
        self.request(kind, 'M')
        self.steps.recv('response', 100, optional=True)
        self.steps.recv('response', 200, more=' next="end"')

    def register(self, kind):
        self.request(kind, 'R')
        self.steps.recv('response', 200, more=' next="end"')


# ---------------------------------------------------------------- callees
def found(expression, names):
    return '<ereg regexp=%s search_in="msg" assign_to="%s"/>' % (quoteattr(expression, {'\r': '&#13;', '\n': '&#10;'}), names)


# The proxy's Via, and what the caller sent of them.
VIAS = found('\nVia: *([^\r\n]*)\r\n(([^Vv\r\n][^\n]*\n)*)[Vv][A-Za-z]* *: *([^\r\n]*(\r\n[Vv][A-Za-z]* *:[^\r\n]*)*)',
             'x0,via1,x2,x3,via2')
HEARD = VIAS + found('\nRecord-Route: *([^\r\n]*)', 'x0,rr') + \
    found('\n(From|FROM|f) *: *([^\r\n]*)', 'x0,x1,from') + found('\n(To|TO|t) *: *([^\r\n]*)', 'x0,x1,to')


class Callees:
    """The callees' scenario, and where each flow of each kind begins."""

    def __init__(self, kinds, offset):
        self.steps, self.starts, self.fields, self.offset = Steps(), {}, {}, offset
        steps = self.steps
        steps.recv('request', 'MESSAGE', optional=True, more=' next="begin"', actions=HEARD)
        steps.recv('request', 'INVITE', actions=HEARD)
        steps.label('begin')
        steps.jump(CALLEE_AT)
        steps.label('answered')
        steps.recv('request', 'ACK')
        steps.label('talking')
        steps.recv('request', 'INVITE', optional=True, more=' next="middle"', actions=VIAS)
        steps.recv('request', 'INFO', optional=True, more=' next="middle"', actions=VIAS)
        steps.recv('request', 'BYE', actions=VIAS)
        steps.jump(BYE_AT)
        steps.label('middle')
        steps.jump(MIDDLE_AT)
        for kind in kinds:
            self.fields[kind.name] = Fields(kind)
            for block in ('answer', 'busy', 'cancel', 'message', 'bye', 'hold', 'info'):
                self.starts[kind.name, block] = steps.count
                getattr(self, block)(kind)
        steps.label('end')
        steps.add('<timewait milliseconds="500"/>')

    def response(self, kind, flag, status, method, after='', retrans=False, via='via1'):
        atoms = dict(CALLEE, via1='[$%s]' % via, via2='[$via2]')
        give = Responding(kind, flag, self.fields[kind.name], self.offset, atoms)
        give.method, give.hops = method, 1 if method == 'CANCEL' else 2
        self.steps.send(kind.response(flag, status, give), after=after, retrans=retrans)

    def rings(self, kind, busy=False):
        if kind.keys['sends-100'] == 'yes':
            self.response(kind, '0', '100 Trying', 'INVITE')
        self.steps.pause(kind.ring)
        if not busy:
            self.response(kind, '1', kind.keys['rings'], 'INVITE')

    def answer(self, kind):
        self.rings(kind)
        self.steps.pause(ANSWERS)
        self.response(kind, '2', '200 ' + kind.keys['phrase-200'], 'INVITE', after='answered', retrans=True)

    def busy(self, kind):
        self.rings(kind, busy=True)
        self.response(kind, 'e', '486 Busy Here', 'INVITE', retrans=True)
        self.steps.recv('request', 'ACK', more=' next="end"')

    def cancel(self, kind):
        self.rings(kind)
        self.steps.recv('request', 'CANCEL', actions=found('\nVia: *([^\r\n]*)', 'x0,own'))
        self.response(kind, 'o', '200 OK', 'CANCEL', via='own')
        self.response(kind, 'e', '487 Request Terminated', 'INVITE', retrans=True)
        self.steps.recv('request', 'ACK', more=' next="end"')

    def message(self, kind):
        self.response(kind, 'o', '200 OK', 'MESSAGE', after='end')

    def bye(self, kind):
        self.response(kind, 'o', '200 OK', 'BYE', after='end')

    def hold(self, kind):
        self.response(kind, '5', '200 OK', 'INVITE', after='answered', retrans=True)

    def info(self, kind):
        self.response(kind, 'o', '200 OK', 'INFO', after='talking')


class Responding(Keywords):
    """Places of a response."""

    method = ''

    def __call__(self, name):
        if name == 'from':
            return '[$from]'
        if name == 'to':
            return '[$to]' + ('' if self.flag == '0' else ';tag=' + self.atom('tag'))
        if name == 'cseq':
            return '[last_cseq_number] ' + self.method
        return self.atom(name)


# ---------------------------------------------------------------- all of it
class Mixed:
    """The workload, for a generator at `ip` that answers at `port` and calls from the next one."""

    def __init__(self, ip, port=5060, domain='bench.test', seed=SEED):
        self.ip, self.port, self.domain, self.seed = ip, port, domain, seed
        self.kinds = table.load()
        self.callers = Callers(self.kinds)
        most = max(len(fields.names) for fields in self.callers.fields.values())
        self.callees = Callees(self.kinds, OWN + most)
        self.widths = most, max(len(fields.names) for fields in self.callees.fields.values())
        rng = random.Random(seed)
        pick = lambda n, weight, able: rng.choices([k for k in self.kinds if able(k)], k=n, weights=[
            weight(k) for k in self.kinds if able(k)])
        kinds = pick(CALLEES, lambda k: k.callee_weight, lambda k: k.can('R'))
        kinds += pick(CALLERS, lambda k: k.caller_weight, lambda k: True)
        people = [Person(kind, n, seed) for n, kind in enumerate(kinds)]
        self.called, self.calling = people[:CALLEES], people[CALLEES:]
        self.refreshing = [p for p in self.calling if p.kind.can('R')][:REFRESHERS]
        self.able = {flow: self.refreshing if flow == 'register' else
                     [p for p in self.calling if (p.kind.name, flow) in self.callers.starts] for flow in FLOWS}

    def scenarios(self, folder):
        """Writes both scenarios: their files."""
        paths = []
        for name, steps in (('caller', self.callers.steps), ('callee', self.callees.steps)):
            paths.append(os.path.join(folder, 'mixed_%s.xml' % name))
            with open(paths[-1], 'w') as f:
                f.write(steps.text('mixed, ' + name))
        return paths

    def options(self):
        """Options of `strowger load` for these scenarios."""
        return ['--cid-field', str(CALL_ID), '--seed', str(self.seed)]

    def rows(self, calls):
        """A line of data for each call."""
        # Apart, so that more calls begin with the same ones.
        rng, flows = random.Random('%s calls' % self.seed), random.Random('%s flows' % self.seed)
        drawn = flows.choices(list(FLOWS), k=calls, weights=[share for share, _ in FLOWS.values()])
        return [self.row(flow, rng) for flow in drawn]

    def row(self, flow, rng):
        caller, callee = rng.choice(self.able[flow]), rng.choice(self.called)
        fields = self.callers.fields[caller.kind.name], self.callees.fields[callee.kind.name]
        own, other = call_values(caller.kind, rng, fields[0].bases), call_values(callee.kind, rng, fields[1].bases)
        start = lambda block: str(self.callees.starts[callee.kind.name, block])
        first = {'busy': 'busy', 'cancel': 'cancel', 'message': 'message'}.get(flow, 'answer')
        middle = 'info' if flow == 'info' else 'hold'
        line = [callee.user, caller.user, str(self.callers.starts[caller.kind.name, flow]), start(first), start(middle),
                start('bye'), self.call_id(caller.kind, rng)]
        line += self.part(fields[0].names, dict(own, **caller.tokens), self.widths[0])
        return tuple(line + self.part(fields[1].names, dict(other, **callee.tokens), self.widths[1]))

    def call_id(self, kind, rng, port=1):
        text = table.drawn(kind.cut['call-id'], rng)
        return text.replace('{ip}', self.ip).replace('{me}', '%s:%d' % (self.ip, self.port + port))

    @staticmethod
    def part(names, values, width):
        """The values of these names, as many as all kinds have at most."""
        made = []
        for name in names:
            base, plus, more = name.partition('+')
            made.append(str(int(values[base]) + int(more)) if plus else values[base])
        return made + [''] * (width - len(made))

    # ------------------------------------------------------------ registrations
    def registration(self, person, number, port):
        """A REGISTER of this user from this port."""
        rng = random.Random('%s registers %s' % (self.seed, number))
        values = dict(call_values(person.kind, rng), **person.tokens)
        me = '%s:%d' % (self.ip, port)
        values.update({'user': person.user, 'domain': self.domain, 'ip': self.ip, 'me': me, 'proxy': self.domain,
                       'call-id': self.call_id(person.kind, rng, port - self.port), 'len': '{len}'})
        return table.wire(person.kind.request('R', table.Text(person.kind, 'R', values)))

    def register(self, server, window=50):
        """All who are called, and those who refresh, register at `server`, each from the port that it has later."""
        for people, port in ((self.called, self.port), (self.refreshing, self.port + 1)):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
                sock.bind((self.ip, port))
                sock.settimeout(2)
                missing = {}
                for n, person in enumerate(people):
                    text = self.registration(person, '%d/%d' % (port, n), port)
                    missing[identity(text)] = text
                for _ in range(6):
                    waiting = iter(list(missing.values()))
                    flying = self.fly(sock, server, waiting, window)
                    while missing:
                        try:
                            reply = sock.recv(65536)
                        except OSError:
                            break
                        if reply.startswith(b'SIP/2.0 1'):
                            continue
                        if not reply.startswith(b'SIP/2.0 200'):
                            raise AssertionError('a registration was refused: %s\n%s' % (
                                reply.split(b'\r')[0], missing.get(identity(reply), b'').decode(errors='replace')))
                        flying -= missing.pop(identity(reply), None) is not None
                        flying += self.fly(sock, server, waiting, window - flying)
                if missing:
                    raise AssertionError('%d of %d could not register' % (len(missing), len(people)))

    @staticmethod
    def fly(sock, server, waiting, room):
        sent = 0
        for text in itertools.islice(waiting, max(room, 0)):
            sock.sendto(text, server)
            sent += 1
        return sent


def identity(message):
    """The Call-ID of a message."""
    for line in message.split(b'\r\n'):
        name, _, value = line.partition(b':')
        if name.strip().lower() in (b'call-id', b'i'):
            return value.strip()
    return b''


def samples(mixed, each):
    """Some requests of each kind as they are on the wire: kind, flag, bytes."""
    rng = random.Random('samples')
    peer = '+4930555123'
    for kind in mixed.kinds:
        for n in range(each):
            person = Person(kind, n, mixed.seed)
            values = dict(call_values(kind, rng), **person.tokens)
            me = '%s:%d' % (mixed.ip, mixed.port + 1)
            values.update({'user': person.user, 'peer': peer, 'domain': mixed.domain, 'ip': mixed.ip, 'me': me, 'len': '{len}',
                           'proxy': '127.0.0.1:5060', 'call-id': mixed.call_id(kind, rng), 'peer-tag': ';tag=4f5e6a',
                           'routes': 'Route: <sip:127.0.0.1;lr>', 'target': 'sip:%s@127.0.0.7:5060' % peer})
            for flag in table.METHODS:
                if kind.can(flag):
                    yield kind, flag, table.wire(kind.request(flag, table.Text(kind, flag, values)))
