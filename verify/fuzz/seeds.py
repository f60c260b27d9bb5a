#!/usr/bin/env python3
"""Write the seed corpora: the torture messages of RFC 4475 and RFC 5118, and hand-made inputs.

The formats are those that the targets in fuzz_targets/ say. Running it again writes the same files.
"""
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
TORTURE = HERE.parent / 'live' / 'torture'


def put(target, name, data):
    folder = HERE / 'corpus' / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def message(start, extra='', body='', cseq='1', branch='z9hG4bK1', call='c1', to_tag='', user='alice', via=''):
    method = start.split(' ')[0]
    return (
        f'{start} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.10:5060;branch={branch};rport\r\n{via}Max-Forwards: 70\r\n'
        f'From: "A" <sip:{user}@example.com>;tag=f1\r\nTo: <sip:bob@example.com>{to_tag}\r\nCall-ID: {call}\r\n'
        f'CSeq: {cseq} {method}\r\n{extra}Content-Length: {len(body)}\r\n\r\n{body}'
    ).encode()


INVITE = message('INVITE sip:bob@example.com', 'Contact: <sip:alice@192.0.2.10>\r\n', 'v=0\r\n')
REGISTER = message('REGISTER sip:example.com', 'Contact: <sip:bob@192.0.2.11:5062>;q=0.5;expires=60\r\n', user='bob')
RESPONSE = (
    b'SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP us;branch=z9hG4bKs, SIP/2.0/TCP [2001:db8::1]:5060;branch=z9hG4bK1\r\n'
    b'From: <sip:a@us>;tag=1\r\nTo: <sip:b@us>;tag=2\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\nl: 0\r\n\r\n'
)


def torture():
    for path in sorted(TORTURE.glob('*/*.dat')):
        data = path.read_bytes()
        if len(data) > 6000:
            continue
        put('message', path.stem, b'\xff\x07' + data)
        put('stream', path.stem, b'\x02\x01\x07\x40\x03' + data)
        put('node', path.stem, b'\x00\x00\x05' + data + b'\xff\x02\x03')


def hand_made():
    put('message', 'invite', b'\x00\x0a' + INVITE)
    put('message', 'response', b'\x00\x0a' + RESPONSE)
    put('message', 'folded', b'\x41\x0a' + INVITE.replace(b'Call-ID: c1', b'Subject: a\r\n b\r\n\tc\r\ni:\r\n c1'))
    for name, data in {
        'invite': INVITE, 'response': RESPONSE, 'lead': b'\r\n\r\n' + REGISTER, 'ping': b'\r\n\r\n',
        'short': INVITE.replace(b'Call-ID: c1', b'i:c1'),
        'spelt': INVITE.replace(b'Call-ID: c1', b'cALL-id \t:\r\n  c1  '),
        'last': b'A sip:a SIP/2.0\r\nI: 0123456789abcdef',
        'beyond_ascii': INVITE.replace(b'"A"', '"\u00e9\u00e8\u8a0a"'.encode()).replace(b': c1', b': c\xe91'),
        'long': INVITE.replace(b'c1', b'c' * 128),
    }.items():
        put('steering', name, b'\xff\x0f' + data)
        put('steering', name + '_cut', b'\x06\x04' + data)
    put('stream', 'two', b'\x02\x01\x02\x03\x04' + INVITE + b'\r\n\r\n' + RESPONSE + b'\r\n' + REGISTER)
    put('stream', 'small_caps', b'\x00\x01\x05\x09\x02' + b'\r\n\r\nA sip:a SIP/2.0\r\nl:3\r\n\r\nabcB')
    put('stream', 'no_length', b'\x02\x40\x40\x40\x40' + INVITE.replace(b'Content-Length: 5\r\n', b''))
    for name, text in {
        'uri': b'sip:alice:pw@example.com:5060;transport=tcp;lr?subject=x\nSIP:%61lice:pw@EXAMPLE.com:5060;LR;transport=TCP?Subject=x',
        'sips': b'sips:[2001:db8::10]:5061;maddr=192.0.2.1;ttl=15\nsips:[2001:db8:0::10]:5061',
        'tel': b'tel:+1-201-555-0123;phone-context=example.com\ntel:+12015550123',
        'via': b'SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1;rport;received=192.0.2.9;maddr=224.0.1.75;ttl=1',
        'via6': b'SIP / 2.0 / TCP [2001:db8::9]:5060 ;rport=5; received=[2001:db8::1];branch=1',
        'name': b'"A \\"quoted\\" name, <x>" <sip:a@b;x=y>;tag=1;q=0.7, sip:c@d;expires=5',
        'auth': b'Digest username="alice", realm="example.com", nonce="a\\"b", uri="sip:b@c", response="00", qop=auth, nc=00000001',
        'params': b';a=1; b="x;y\\"z" ;c;d = e',
    }.items():
        put('uri_headers', name, b'\x07' + text)
    ok = (
        b'Digest username="alice", realm="example.com", nonce="$N", uri="sip:bob@example.com", '
        b'response="$R", qop=auth, nc=00000001, cnonce="c"'
    )
    put('digest', 'right', b'\x00' + ok)
    put('digest', 'sha256', b'\x01' + ok.replace(b'nc=', b'algorithm=SHA-256, nc='))
    put('digest', 'sha512', b'\x02' + ok.replace(b'nc=', b'algorithm=SHA-512-256, nc='))
    put('digest', 'plain', b'\x04' + ok.split(b', qop')[0])
    put('digest', 'wrong', b'\x00' + ok.replace(b'$R', b'0' * 32))
    put('digest', 'two', b'\x00Basic x=y\n' + ok.replace(b'example.com"', b'other"', 1) + b'\n' + ok)
    put('digest', 'spaces', b'\x00Digest  username = "alice" ,,\trealm="example.com", NONCE="$N",uri="sip:bob@example.com"')
    # receive INVITE, respond 180, ring, respond 200, pass; send, hear, cancel, undeliverable.
    put('transaction', 'server', bytes([0, 0, 2, 0, 2, 0, 1, 6, 12, 2, 0, 3, 0, 4, 2, 0, 6, 20]))
    put('transaction', 'refused', bytes([0, 0, 2, 0, 2, 0, 9, 6, 12, 0, 0, 2, 0, 0, 4, 2, 0]))
    put('transaction', 'client', bytes([3, 0, 4, 0, 1, 0, 5, 0, 0, 6, 11, 4, 0, 8, 0, 6, 18]))
    put('transaction', 'message', bytes([3, 1, 6, 12, 6, 14, 4, 0, 3, 0, 6, 16, 3, 1, 5, 1, 0]))
    put('transaction', 'cancelled', bytes([0, 0, 2, 0, 0, 5, 2, 0, 2, 1, 3, 2, 0, 8, 6, 20]))


def calls():
    def chunks(choice, *parts):
        return bytes([choice]) + b'\xff'.join(parts)

    register = bytes([0, 1]) + REGISTER
    invite = bytes([0, 0]) + INVITE
    ringing, busy, ok, moved = bytes([2, 0x10]), bytes([2, 0xb0]), bytes([2, 0x30]), bytes([2, 0x60])
    challenged = bytes([2, 0x70])
    ack, bye, callee_bye = bytes([4, 0]), bytes([4, 1]), bytes([4, 5])
    ring_out = bytes([5, 28])
    put('node', 'call', chunks(0, register, invite, ringing, ok, ack, bye, ok))
    put('node', 'call_tcp', chunks(0, register, bytes([1, 0]) + INVITE, ringing, ok, ack, callee_bye, ok))
    put('node', 'call_digest', chunks(1, register, bytes([3, 0x11]), invite, bytes([3, 0x00]), ringing, ok, ack, bye))
    put('node', 'busy_voicemail', chunks(0x80, register, invite, busy, ok, ack, bye))
    put('node', 'no_answer', chunks(0x80, register, invite, ringing, ring_out, ring_out, ok))
    put('node', 'offline', chunks(0x80, invite, ok))
    put('node', 'redirected', chunks(0x20, register, invite, moved, ok, ack))
    put('node', 'redirect_mode', chunks(6, register, invite))
    put('node', 'stateless', chunks(4, register, invite, ringing, ok, ack, bye, ok))
    put('node', 'cancelled', chunks(0, register, invite, ringing, bytes([11, 2]), bytes([2, 0xc0]), bytes([11, 6])))
    put('node', 'retransmitted', chunks(0, register, invite, bytes([11, 0]), bytes([11, 1]), ring_out))
    second = REGISTER.replace(b'5062', b'5063').replace(b'Call-ID: c1', b'Call-ID: c2')
    put('node', 'forked', chunks(0, register, bytes([0, 2]) + second, invite, ringing, bytes([2, 0x31]), ok, ack))
    put('node', 'forked_refused', chunks(0, register, bytes([0, 2]) + second, invite, challenged, bytes([2, 0xf1]), busy))
    outside = INVITE.replace(b'sip:bob@example.com SIP', b'sip:bob@host.example.net;transport=tcp SIP')
    names = bytes([7, 3])
    put('node', 'outside', chunks(0, bytes([0, 0]) + outside, names, names, names, names, ringing, ok))
    put('node', 'outside_fails', chunks(0, bytes([0, 0]) + outside, bytes([7, 1]), bytes([6, 0]), ring_out))
    trunk = INVITE.replace(b'sip:bob@example.com SIP', b'sip:+15550123@example.com SIP')
    put('node', 'trunk', chunks(0, bytes([0, 0]) + trunk, bytes([2, 0xe0]), names, names, names, ok, ack, bye))
    put('node', 'from_trunk', chunks(1, register, bytes([3, 0x11]), bytes([0, 14]) + INVITE, ok, bytes([4, 0xe4])))
    put('node', 'route', chunks(0, bytes([0, 0]) + INVITE.replace(b'sip:bob@', b'sip:911@', 1), ok))
    put('node', 'moved', chunks(0, bytes([0, 0]) + INVITE.replace(b'sip:bob@', b'sip:moved@', 1)))
    unregister = REGISTER.replace(b'<sip:bob@192.0.2.11:5062>;q=0.5;expires=60', b'*\r\nExpires: 0').replace(b'CSeq: 1', b'CSeq: 2')
    put('node', 'unregister', chunks(0, register, bytes([0, 1]) + unregister, invite))
    outbound = REGISTER.replace(b';q=0.5', b';reg-id=1;+sip.instance="<urn:uuid:1>"').replace(
        b'Content-Length', b'Supported: outbound, path\r\nPath: <sip:edge@192.0.2.30;lr;ob>\r\nContent-Length')
    put('node', 'outbound', chunks(0, bytes([1, 1]) + outbound, invite, bytes([6, 0]), ok))
    put('node', 'settings', chunks(0, register, invite, bytes([8, 0x88]), ok, bytes([11, 0xfe]), invite, bytes([10, 1])))
    put('node', 'stream_broken', chunks(0, bytes([9, 2]) + INVITE))
    looped = INVITE.replace(b'Max-Forwards: 70', b'Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK0\r\nMax-Breadth: 2\r\nMax-Forwards: 1')
    put('node', 'loop', chunks(0, register, bytes([0, 0]) + looped))
    routed = INVITE.replace(b'Max-Forwards', b'Route: <sip:192.0.2.1;lr>, <sip:127.0.0.1:8080;lr>\r\nMax-Forwards')
    put('node', 'preloaded', chunks(0, bytes([0, 0]) + routed))
    options = message('OPTIONS sip:192.0.2.1', 'Require: nothing\r\n')
    put('node', 'options', chunks(0, bytes([0, 3]) + options))


def balanced():
    def chunks(choice, *parts):
        return bytes([choice]) + b'\xff'.join(parts)

    def caller(stream, text):
        return bytes([stream, 3]) + text.replace(b'192.0.2.10:5060', b'198.51.100.3').replace(
            b'UDP', b'TCP' if stream else b'UDP')

    invite, invite_tcp = caller(0, INVITE), caller(1, INVITE)
    trying, ringing, ok, busy = bytes([2, 0x00]), bytes([2, 0x10]), bytes([2, 0x30]), bytes([2, 0xb0])
    first_ok, first_busy, first_trying = bytes([2, 0x31]), bytes([2, 0xb1]), bytes([2, 0x01])
    ack, bye, callee_bye = bytes([4, 0]), bytes([4, 1]), bytes([4, 5])
    moment, minute, lost = bytes([5, 19]), bytes([5, 26]), bytes([6, 0])
    put('balancer', 'call', chunks(8, invite, ringing, ok, ack, bye, ok))
    put('balancer', 'call_tcp', chunks(8, invite_tcp, ringing, ok, ack, callee_bye, ok))
    put('balancer', 'refused', chunks(8, invite_tcp, busy, bytes([3, 6])))
    put('balancer', 'cancelled', chunks(8, invite, ringing, bytes([3, 2]), ok, bytes([2, 0xc1]), bytes([3, 6])))
    put('balancer', 'lost', chunks(0, invite_tcp, lost, lost, lost, lost))
    put('balancer', 'silent', chunks(8, invite, moment, first_trying, first_busy, ok, ack, bye, ok))
    put('balancer', 'two_yes', chunks(8, invite, moment, ok, first_ok, minute))
    put('balancer', 'won_back', chunks(8, invite, moment, ringing, first_ok, busy, minute))
    put('balancer', 'returned', chunks(0, invite, bytes([10, 0xfe]), bytes([3, 0]), ok, minute))
    put('balancer', 'nodes', chunks(0, invite, bytes([7, 0x80]), ringing, bytes([7, 0xc0]), bytes([7, 1]), ok, bytes([12, 0])))
    put('balancer', 'orphan', chunks(8, invite, ringing, bytes([7, 0]), bytes([7, 1]), bytes([12, 0]), ok))
    put('balancer', 'long', chunks(8, caller(0, INVITE.replace(b'v=0', b'v=0' * 400).replace(b': 5', b': 1202')), lost, ok))
    put('balancer', 'register', chunks(0, caller(1, REGISTER), ok, bytes([8, 0x35]), caller(0, REGISTER), moment))
    # 180, its node down, 200 of the next; a wish of an overloaded node; a CANCEL while all are down.
    put('balancer', 'story', chunks(0, bytes([13, 0]) + bytes([1, 3, 32, 9, 0]), bytes([13, 4]) + bytes([1, 3, 1, 3, 5, 32, 4])))
    put('balancer', 'silent_story', chunks(0, bytes([13, 1]) + bytes([24, 24, 24, 1, 74, 9])))
    put('balancer', 'overloaded', chunks(0, moment, bytes([2, 0x31]), invite, ok, bytes([13, 0, 24, 9]), bytes([13, 0, 24, 9])))
    put('balancer', 'broken', chunks(0, bytes([9, 1]) + INVITE, bytes([12, 0xfe]), invite))


def websockets():
    # First byte: 0x00 handshake, 0x40 and 0x41 raw frames to a server or a client, 0x80 and 0x81 built ones.
    cuts = b'\x01\x03\x07\x28'
    masked = bytes.fromhex('818537fa213d7f9f4d5158')
    for name, data in {
        'text': b'\x81\x05Hello', 'fragments': b'\x01\x03Hel\x89\x02ok\x80\x02lo', 'ping': b'\x89\x05Hello',
        'binary_256': b'\x82\x7e\x01\x00' + bytes(256), 'close': b'\x88\x05\x03\xe8bye\x81\x00',
        'huge': b'\x82\x7f\x80' + bytes(7), 'bad_text': b'\x01\x01\xc3\x80\x01\x28', 'code_1014': b'\x88\x02\x03\xf6',
        'split_character': b'\x01\x01\xc3\x80\x01\xbc', 'not_minimal': b'\x82\x7e\x00\x01a\x81\x01b',
        'not_minimal_pong': b'\x8a\x7e\x00\x01a\x81\x01b',
    }.items():
        put('websocket', name, b'\x41' + cuts + data)
    put('websocket', 'masked', b'\x40' + cuts + masked + b'\x8a' + masked[1:])
    put('websocket', 'unmasked', b'\x40' + cuts + masked + b'\x81\x05Hello')
    key = b'\x37\xfa\x21\x3d'
    put('websocket', 'built', b'\x80' + cuts + b'\x01\x03' + key + b'INV' + b'\x89\x00' + key + b'\x80\x03' + key + b'ITE')
    put('websocket', 'built_sip', b'\x84' + cuts + b'\x82\xfa' + key + INVITE[:250] + b'\x88\x02' + key + b'\x03\xe9')
    request = (
        b'GET /ws?x=1 HTTP/1.1\r\nHost: a:80\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nOrigin: http://a\r\n'
        b'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: sip\r\nSec-WebSocket-Version: 13\r\n\r\n'
    )
    put('websocket', 'request', b'\x00' + cuts + request)
    put('websocket', 'request_folded', b'\x00' + cuts + request.replace(b'Origin', b'X: 1\r\n Origin'))
    put('websocket', 'response', b'\x00' + cuts + b'HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')


def routes():
    # The number of rows; each row a text and a byte for trunk, priority and cost; then numbers.
    def text(written):
        return bytes([len(written)]) + bytes(b'0149#*+'.index(byte) for byte in written)

    def table(rows, numbers):
        made = b''.join(text(prefix) + bytes([choice]) for prefix, choice in rows)
        return bytes([len(rows)]) + made + b''.join(text(number) for number in numbers)

    nested = [(b'+', 1), (b'+4', 33), (b'+49', 2), (b'+490', 66), (b'+490', 35), (b'0', 4), (b'#1#', 5), (b'*', 6)]
    put('routes', 'nested', table(nested, [b'+4904', b'+491', b'+1', b'00', b'#1#4', b'4', b'']))
    put('routes', 'twice', table([(b'+49', 1), (b'+4', 1), (b'+49', 33)], [b'+49']))
    put('routes', 'many', table([(b'+49', trunk) for trunk in range(17)], [b'+49']))
    put('routes', 'longest', table([(b'9' * 32, 1), (b'9' * 31, 2), (b'9' * 33, 3)], [b'9' * 39, b'9' * 32, b'9' * 30]))


def sessions():
    # First byte: 0x00 as it is, 0x40 a changed byte, 0x80 inserted bytes, 0xc0 the end; 1: TLS 1.2.
    frames = b'\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58' + b'\x89\x80\x37\xfa\x21\x3d'
    text = (INVITE + REGISTER) * 3
    for version in (0, 1):
        for name, cuts in {'whole': b'\0\0\0\0', 'bytes': b'\1\1\1\1', 'pieces': b'\x03\xff\x00\x11'}.items():
            for kind, data in {'text': text, 'frames': frames * 9, 'empty': b''}.items():
                put('secure', f'{name}_{kind}_{version}', bytes([version]) + cuts + b'\0\0\0' + data)
        # In the ClientHello, in the last flight, and among the data.
        for place in (0, 5, 200, 1250, 1400, 1600, 2500):
            at = place.to_bytes(2, 'big')
            put('secure', f'byte_{place}_{version}', bytes([0x40 | version]) + b'\0\0\x55\0' + at + b'\x01' + text)
            put('secure', f'end_{place}_{version}', bytes([0xc0 | version]) + b'\0\0\x55\0' + at + b'\0' + text)
            for name, more in {
                'alert': b'\x15\3\3\0\2\2\x28', 'empty': b'\x16\3\3\0\0', 'large': b'\x17\3\3\xff\xff',
                'cipher': b'\x14\3\3\0\1\1', 'part': b'\x16\3\3\0\5\1\0\2\0\3',
            }.items():
                head = bytes([0x80 | version]) + b'\0\0\x55\0' + at + bytes([len(more)])
                put('secure', f'{name}_{place}_{version}', head + text + more)


torture()
hand_made()
calls()
balanced()
websockets()
routes()
sessions()
