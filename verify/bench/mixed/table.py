"""The kinds of clients of the workload `mixed`: reads the tables beside it and makes messages of them.

A table has kinds, each begun by `= NAME`. A line `key: value` sets something, `token NAME: PATTERN` names a text that is
another in each call, `user-token NAME: PATTERN` one that is another for each user. A pattern has `<ALPHABET*LENGTH>`, or
`<ALPHABET*FROM-TO>`, and `<first>`, `<last>` for names of people. Then come blocks: `request:` and `response:` with a
header in each line, `sdp:` and perhaps `answer:` with the offer and the answer. A header line begins with the messages
that have it:

    requests   I INVITE, r re-INVITE, A ACK to a 2xx, X ACK to another final response, B BYE, C CANCEL, N INFO, M MESSAGE,
               R REGISTER, * all
    responses  0 100, 1 the provisional one, 2 200 to INVITE, 5 200 to re-INVITE, o 200 to others, e 486 and 487, * all

What follows the first blank is the header as it is on the wire; `_` stands for the blank that begins a folded line. `{x}`
is a token, a user's token, or what PLACES says.

Keys: `weight` of callers and callees; `ring`, milliseconds from INVITE to the provisional response; `rings`, that
response, if not 180; `sends-100`; `phrase-200`; `users` (`number`, `extension`, `word`); `branch`, `tag`, `call-id`
patterns; `cseq`, the first number. `ruri`, `to`, `from`, `aor`, `contact` and any other key are texts that lines refer to.
"""
import glob
import os
import random
import re
import string

HERE = os.path.dirname(os.path.abspath(__file__))

ALPHABETS = {
    'hex': '0123456789abcdef', 'HEX': '0123456789ABCDEF', 'dec': string.digits,
    'b36': string.digits + string.ascii_lowercase, 'word62': string.digits + string.ascii_letters,
    'b64': string.ascii_letters + string.digits + '+/', 'word': string.ascii_letters + string.digits + '.-',
}
FIRST = ('Anna', 'Ben', 'Carla', 'David', 'Eva', 'Felix', 'Jörg', 'Maria del Carmen', 'Søren', 'Li', 'O\'Neil', 'Zoë')
LAST = ('Berg', 'Meyer-Schulz', 'Garcia', 'Smith', 'Østby', 'Kowalski', 'Vo', 'Front Desk', 'van der Berg', 'Lee')

# What any line may refer to, besides tokens: user, peer, domain, ip, me (host and port), proxy, peer-ip, rtp, rtcp,
# branch, tag, call-id, cseq, len, routes, from, to, and in responses via1, via2, rr.
DEFAULTS = {
    'ruri': 'sip:{peer}@{domain}', 'from': '<sip:{user}@{domain}>', 'to': '<sip:{peer}@{domain}>',
    'contact': '<sip:{user}@{me}>', 'ring': '50', 'rings': '180 Ringing', 'phrase-200': 'OK', 'sends-100': 'no',
    'users': 'extension', 'aor': '<sip:{user}@{domain}>', 'display': '<first> <last>',
}
PATTERNS = ('branch', 'tag', 'call-id')
BLOCKS = ('request', 'response', 'sdp', 'answer')
# Branches of one call: INVITE (or the only request), its ACK, BYE, a request in between, its ACK.
BRANCHES = 5

INFO_BODY = ['Signal={digit}', 'Duration=160']
MESSAGE_BODY = ['{words}']
COMMON = {'digit': '<dec*1>', 'words': '<b36*3-9> <b36*2-12> <b36*4-60>'}

# Which requests have what flag in the tables.
METHODS = {'I': 'INVITE', 'r': 'INVITE', 'A': 'ACK', 'X': 'ACK', 'B': 'BYE', 'C': 'CANCEL', 'N': 'INFO', 'M': 'MESSAGE',
           'R': 'REGISTER'}
IN_DIALOG = 'rABN'


class Wrong(Exception):
    """A table that cannot be used."""


def pieces(pattern):
    """A pattern as a list of texts and (alphabet, from, to)."""
    found = []
    for text, name, low, high in re.findall(r'([^<]+)|<(\w+)\*?(\d*)-?(\d*)>', pattern):
        found.append(text if text else (name, int(low or 0), int(high or low or 0)))
    return found


def drawn(cut, rng):
    """One text of a pattern."""
    out = []
    for piece in cut:
        if isinstance(piece, str):
            out.append(piece)
            continue
        name, low, high = piece
        if name == 'first' or name == 'last':
            out.append(rng.choice(FIRST if name == 'first' else LAST))
            continue
        length = low if low == high else rng.randint(low, high)
        if name == 'dec':
            # No client writes a leading zero where a number is meant.
            out.append(str(rng.randrange(10 ** (length - 1) if length > 1 else 0, 10 ** length)))
        elif name == 'hex' or name == 'HEX':
            out.append('%0*x' % (length, rng.getrandbits(4 * length)) if name == 'hex' else
                       '%0*X' % (length, rng.getrandbits(4 * length)))
        else:
            out.append(''.join(rng.choices(ALPHABETS[name], k=length)))
    return ''.join(out)


class Kind:
    """One kind of client."""

    def __init__(self, name):
        self.name, self.keys, self.tokens, self.user_tokens = name, dict(DEFAULTS), {}, {}
        self.blocks = {block: [] for block in BLOCKS}

    def finish(self):
        for key in PATTERNS + ('weight', 'cseq', 'source'):
            if key not in self.keys:
                raise Wrong('%s has no %s' % (self.name, key))
        if not (self.blocks['request'] and self.blocks['response'] and self.blocks['sdp']):
            raise Wrong('%s lacks a block' % self.name)
        self.caller_weight, self.callee_weight = map(int, self.keys['weight'].split())
        self.ring = int(self.keys['ring'])
        for key, value in COMMON.items():
            self.tokens.setdefault(key, value)
        self.user_tokens.setdefault('name', self.keys['display'].strip('"'))
        self.cut = {key: pieces(self.keys[key]) for key in PATTERNS}
        self.cut_tokens = {key: pieces(value) for key, value in self.tokens.items()}
        self.cut_user = {key: pieces(value) for key, value in self.user_tokens.items()}
        self.cseq = tuple(map(int, self.keys['cseq'].split('-')))
        return self

    def can(self, flag):
        """Whether it sends such requests: all send INVITE; INFO and MESSAGE need a Content-Type, REGISTER an Expires."""
        lines = [line for flags, line in self.blocks['request'] if flag in flags]
        wanted = {'N': ('content-type:', 'c:'), 'M': ('content-type:', 'c:'), 'R': ('expires:',)}.get(flag)
        return wanted is None or any(line.lower().startswith(wanted) for line in lines) or (
            flag == 'R' and any('expires=' in line for line in lines))

    # ------------------------------------------------------------ messages
    def request(self, flag, give):
        """The lines of a request; `give` says what stands for a place. The body follows an empty line."""
        start = '%s %s SIP/2.0' % (METHODS[flag], give('target') if flag in IN_DIALOG else
                                   self.fill('sip:{domain}' if flag == 'R' else self.keys['ruri'], give))
        body = {'I': self.blocks['sdp'], 'r': again(self.blocks['sdp'], 'sendonly'), 'N': INFO_BODY, 'M': MESSAGE_BODY}
        return [start] + self.headers('request', flag, give) + [''] + [self.fill(l, give) for l in body.get(flag, [])]

    def response(self, flag, status, give):
        """The lines of a response."""
        offer = self.blocks['answer'] or self.blocks['sdp']
        body = {'2': offer, '5': again(offer, 'recvonly'), '1': offer if status.startswith('183') else []}.get(flag, [])
        headers = self.headers('response', flag, give)
        if not body:
            headers = [h for h in headers if not h.lower().startswith(('content-type:', 'content-disposition:', 'c:'))]
        return ['SIP/2.0 ' + status] + headers + [''] + [self.fill(l, give) for l in body]

    def headers(self, block, flag, give):
        wanted = [line for flags, line in self.blocks[block] if flags == '*' or flag in flags]
        if give.hops == 1:
            # What a proxy sends of its own, such as a CANCEL, has its Via alone.
            cut = [re.sub(r'(, *)?\{via2\}$', '', line) for line in wanted]
            wanted = [line for line, before in zip(cut, wanted) if line == before or '{via1}' in line]
        return [self.fill(line, give) for line in wanted]

    def fill(self, line, give, depth=0):
        if depth > 4:
            raise Wrong('%s: %s refers to itself' % (self.name, line))

        def one(match):
            name = match[1]
            given = give(name)
            if given is not None:
                return given
            base = name.split('+')[0]
            if base not in self.keys:
                raise Wrong('%s: {%s} stands for nothing' % (self.name, name))
            return self.fill(self.keys[base], give, depth + 1)
        # A blank that begins a line folds it.
        line = ' ' + line[1:] if line.startswith('_') else line
        return re.sub(r'\{([\w+-]+)\}', one, give.literal(line))


def again(sdp, direction):
    """The description of a session a second time: a higher version, another direction."""
    lines = []
    for line in sdp:
        if line.startswith('o='):
            words = line.split(' ')
            words[2] = re.sub(r'^\{(\w+)(?:\+(\d+))?\}$', lambda m: '{%s+%d}' % (m[1], int(m[2] or 0) + 1), words[2])
            words[2] = str(int(words[2]) + 1) if words[2].isdigit() else words[2]
            line = ' '.join(words)
        lines.append(line if line != 'a=sendrecv' else 'a=' + direction)
    return lines if 'a=sendrecv' in sdp else lines + ['a=' + direction]


def read(text, file_name='table'):
    """The kinds of a table."""
    kinds, kind, block = [], None, None
    for number, line in enumerate(text.split('\n'), 1):
        where = '%s:%d' % (file_name, number)
        if line.startswith('#') or not line:
            continue
        if line.startswith('= '):
            kind, block = Kind(line[2:].strip()), None
            kinds.append(kind)
            continue
        if kind is None:
            raise Wrong(where + ': no kind has begun')
        if line[:-1] in BLOCKS:
            block = line[:-1]
            continue
        token = re.match(r'(user-)?token ([\w-]+): (.*)', line)
        if token:
            (kind.user_tokens if token[1] else kind.tokens)[token[2]] = token[3]
        elif block in ('sdp', 'answer'):
            kind.blocks[block].append(line)
        elif block:
            flags, blank, header = line.partition(' ')
            known = set(METHODS) if block == 'request' else set('0125oe')
            if not blank or (flags != '*' and not set(flags) <= known):
                raise Wrong(where + ': no messages before the header')
            kind.blocks[block].append((flags, header))
        else:
            key, colon, value = line.partition(': ')
            if not colon:
                raise Wrong(where + ': neither a key nor a block')
            kind.keys[key] = value
    return [kind.finish() for kind in kinds]


def load():
    """All kinds of all tables, in the order of files and lines."""
    kinds = []
    for path in sorted(glob.glob(os.path.join(HERE, '*.txt'))):
        with open(path) as f:
            kinds += read(f.read(), os.path.basename(path))
    return kinds


class Places:
    """What stands for the places of one message. A subclass knows the atoms; what is made of them is here."""

    # Vias that a response has, at least.
    hops = 2

    def __init__(self, kind, flag, branch=0, cseq=0):
        self.kind, self.flag, self.branch, self.cseq = kind, flag, branch, cseq
        # Who registers does so by the name that it is called by, whatever it shows to others.
        known = flag != 'R' or ('{user}@{domain}' in kind.keys['from'])
        self.own = 'from' if known else 'aor'

    def __call__(self, name):
        if name == 'branch':
            return self.atom('branch%d' % self.branch)
        if name == 'from':
            return self.kind.fill(self.kind.keys[self.own], self) + ';tag=' + self.atom('tag')
        if name == 'to':
            other = self.kind.keys[self.own if self.flag == 'R' else 'to']
            tagged = self.flag in IN_DIALOG or self.flag == 'X'
            return self.kind.fill(other, self) + (self.atom('peer-tag') if tagged else '')
        if name == 'cseq':
            return '%s %s' % (self.atom('cseq%d' % self.cseq), METHODS[self.flag])
        return self.atom(name)


class Text(Places):
    """A request as it is on the wire."""

    def __init__(self, kind, flag, values, **which):
        super().__init__(kind, flag, **which)
        self.values = values

    @staticmethod
    def literal(line):
        return line

    def atom(self, name):
        base, plus, more = name.partition('+')
        value = self.values.get(base)
        return str(int(value) + int(more)) if plus and value is not None else value


def wire(lines):
    """The bytes of a message whose lines these are, Content-Length filled in."""
    empty = lines.index('')
    head, body = lines[:empty], lines[empty + 1:]
    content = ''.join(line + '\r\n' for line in body).encode()
    text = ''.join(line + '\r\n' for line in head) + '\r\n'
    return text.replace('{len}', str(len(content))).encode() + content


class Person:
    """A user: a name, a kind, what is always the same for it."""

    def __init__(self, kind, number, seed):
        self.kind = kind
        rng = random.Random('%s/%s' % (seed, number))
        self.tokens = {name: drawn(cut, rng) for name, cut in kind.cut_user.items()}
        shape = kind.keys['users']
        self.user = '+4930%07d' % (1000000 + number * 7) if shape == 'number' else \
            '%s.%d' % (rng.choice(('anna', 'b.meyer', 'carla', 'desk', 'eva_lee', 'felix')), number) if shape == 'word' else \
            str(20000 + number)


def call_values(kind, rng, wanted=None):
    """What is another in each call of a kind, by the name of its place: of those wanted, or all."""
    values = {name: drawn(cut, rng) for name, cut in kind.cut_tokens.items() if not wanted or name in wanted}
    for n in range(BRANCHES):
        if not wanted or 'branch%d' % n in wanted:
            values['branch%d' % n] = drawn(kind.cut['branch'], rng)
    values['tag'] = drawn(kind.cut['tag'], rng)
    first = rng.randint(*kind.cseq)
    values.update(('cseq%d' % n, str(first + n)) for n in range(3))
    port = rng.randrange(10000, 32000) * 2
    values.update(rtp=str(port), rtcp=str(port + 1))
    return values
