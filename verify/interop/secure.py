"""Scenarios over TLS: phones of several makers, and what programs find that look for weaknesses."""
import json
import os
import re
import shutil
import socket
import subprocess
import threading

import phones
from harness import net, servers
from scenarios import LeftOut, dismiss, must, registered, scenario, set_up, talk

# Each calls every other.
CREW = [('%s1%s' % (k, t), 'secret') for t in ('udp', 'tls') for k in 'bp'] + [('l1tls', 'secret')]


def crew(server):
    """A baresip and a PJSIP phone over UDP and over TLS, and a linphone over TLS, registered."""
    kinds = [(kind, t) for t in ('udp', 'tls') for kind in (phones.Baresip, phones.Pjsip)] + [(phones.Linphone, 'tls')]
    return registered([kind('%s1%s' % (kind.kind[0], t), 'secret', server, t) for kind, t in kinds])


@scenario
def tls_all_pairs(run):
    """baresip, PJSIP and linphone over TLS, and the first two over UDP: every phone calls every other."""
    with servers.Strowger(run.bin, workers=2, users=CREW, secure=True) as server:
        all_ = crew(server)
        try:
            calls = 0
            for caller in all_:
                for callee in all_:
                    if caller is callee:
                        continue
                    try:
                        talk(caller, callee)
                    except AssertionError as error:
                        raise AssertionError('%s to %s: %s' % (caller, callee, error))
                    calls += 1
            made = server.metric('strowger_tls_handshakes_total')
            must(made >= 3, 'only', made, 'handshakes')
            return '%d calls between %d phones, %d handshakes' % (calls, len(all_), made)
        finally:
            dismiss(all_)


@scenario
def tls_server_killed(run):
    """After `kill -9` and a restart a phone on TLS that registers again is called at once."""
    with servers.Strowger(run.bin, workers=2, users=CREW, secure=True) as server:
        pair = [phones.Pjsip('p1tls', 'secret', server, 'tls'), phones.Pjsip('p1udp', 'secret', server, 'udp')]
        try:
            registered(pair)
            talk(*pair)
            server.kill()
            server.start()
            pair[0].forget()
            pair[0].register()
            pair[0].wait('registered', 30)
            talk(pair[1], pair[0])
            talk(*pair)
            return '3 calls'
        finally:
            dismiss(pair)


@scenario
def tls_call_goes_on(run):
    """Calls of a phone on TLS go on after `kill -9` and a restart: hold and BYE of both ends, over the new connection."""
    with servers.Strowger(run.bin, workers=2, users=CREW, secure=True) as server:
        pair = [phones.Pjsip('p1tls', 'secret', server, 'tls'), phones.Pjsip('p1udp', 'secret', server, 'udp')]
        try:
            registered(pair)
            phone, other = pair
            for caller, callee, last in ((phone, other, phone), (other, phone, other), (phone, other, other), (other, phone, phone)):
                set_up(caller, callee)
                server.kill()
                server.start()
                phone.forget()
                phone.register()
                phone.wait('registered', 30)
                for one, two in (pair, pair[::-1]):
                    two.forget()
                    one.hold()
                    two.wait('held')
                    one.resume()
                    two.wait('speaking')
                last.hangup()
                (other if last is phone else phone).wait('closed')
            return '4 calls over 4 restarts'
        finally:
            dismiss(pair)


class Wire:
    """Forwards connections over TLS to `server`, and can cut them. It is the server for a phone. Use as a context manager."""

    def __init__(self):
        self.server = None
        self.listener = socket.create_server((net.fresh_ip(), 5061))
        self.ip, self.ends = self.listener.getsockname()[0], []

    def __getattr__(self, name):
        return getattr(self.server, name)

    def place(self, transport):
        return self.listener.getsockname()

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.cut()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.server.place('tls'), 5)
            except OSError:
                return
            self.ends += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(one, other), daemon=True).start()

    @staticmethod
    def _forward(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self):
        """Ends all connections."""
        ends, self.ends = self.ends, []
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


@scenario
def tls_outbound(run):
    """PJSIP with a flow (RFC 5626) over TLS whose connection is cut: it is called again at once, and its calls go on."""
    with Wire() as wire:
        # The phone's Route names the address that it connects to.
        wire.server = server = servers.Strowger(run.bin, workers=2, users=CREW, config='aliases = ["%s"]\n' % wire.ip, secure=True)
        server.chain, server.key = server.authority.issue(server.domain, [server.domain, 'IP:' + wire.ip])
        with server:
            phone, other = phones.Pjsip('p1tls', 'secret', wire, 'tls'), phones.Pjsip('p1udp', 'secret', server, 'udp')
            try:
                registered([phone, other])

                def back():
                    phone.forget()
                    wire.cut()
                    # It does this by itself, but some seconds later.
                    phone.register()
                    phone.wait('registered', 30)

                back()
                for pair in ((other, phone), (phone, other)):
                    talk(*pair)
                for caller, callee, last in ((other, phone, other), (phone, other, phone)):
                    set_up(caller, callee)
                    back()
                    for one, two in ((other, phone), (phone, other)):
                        two.forget()
                        one.hold()
                        two.wait('held')
                        one.resume()
                        two.wait('speaking')
                    last.hangup()
                    (other if last is phone else phone).wait('closed')
                shown = bindings(server, phone)
                must(len(shown) == 1 and shown[0]['instance'] and shown[0]['contact'].endswith(';ob'), 'bindings:', shown)
                return '4 calls, 3 connections cut'
            finally:
                dismiss([phone, other])


# What testssl.sh says of the authority and of the machine of this test.
NOT_OURS = {'cert_revocation', 'DNS_CAArecord'}


def scanned(place):
    """What sslscan finds wrong at this listener."""
    found = output('sslscan', '--no-colour', place)
    on = re.findall(r'^(\S+)\s+enabled$', found, re.M)
    must(sorted(on) == ['TLSv1.2', 'TLSv1.3'], 'sslscan: versions', on)
    weak = [line for line in found.splitlines() if re.match(r'(Accepted|Preferred)', line) and not re.search(r'GCM|POLY1305', line)]
    must(not weak, 'sslscan: suites', weak)


@scenario
def tls_scanners(run):
    """sslscan, testssl.sh and `openssl s_client` find no weakness: testssl.sh has nothing to say above INFO."""
    missing = [tool for tool in ('sslscan', 'testssl', 'openssl') if not shutil.which(tool)]
    if missing:
        raise LeftOut('not installed: ' + ', '.join(missing))
    server = servers.Strowger(run.bin, workers=2, users=CREW, secure=True)
    # testssl.sh warns of one that expires within 30 days.
    server.chain, server.key = server.authority.issue(server.domain, [server.domain, 'IP:' + server.ip], days=90)
    with server:
        for kind, old in (('wss', '-tls1'), ('wss', '-tls1_1'), ('tls', '-tls1'), ('tls', '-tls1_1')):
            place = '%s:%d' % server.place(kind)
            must('Cipher is (NONE)' in output('openssl', 's_client', old, '-connect', place, '-cipher', 'ALL:@SECLEVEL=0'),
                 'openssl', old, 'was taken over', kind)
        scanned(place)
        report = os.path.join(server.dir, 'testssl.json')
        output('testssl', '--quiet', '--color', '0', '--warnings', 'off', '--protocols', '--server-defaults', '--vulnerable', '--fs',
               '--std', '--jsonfile', report, '--add-ca', server.authority.roots, place)
        with open(report) as f:
            findings = [(one['severity'], one['id'], one['finding']) for one in json.load(f)]
        # WARN: this machine was too busy for that check.
        bad = [one for one in findings if one[0] not in ('OK', 'INFO', 'DEBUG', 'WARN') and one[1] not in NOT_OURS]
        must(not bad, 'testssl.sh:', bad)
        lacks = {'SSLv3', 'TLS1_3', 'cert_trust', 'heartbleed', 'LUCKY13', 'secure_client_renego'}.difference(
            each for severity, each, _ in findings if severity == 'OK')
        must(not lacks, 'testssl.sh did not look at', lacks)
        return 'TLS 1.2 and 1.3 alone, %d findings, none above INFO' % len(findings)


def bindings(server, phone):
    """What `ctl bindings` shows of a phone."""
    done = subprocess.run([server.binary, 'ctl', 'bindings', '--output', 'json', '--admin', server.admin], capture_output=True, text=True)
    return [one for one in json.loads(done.stdout) if one['aor'] == phone.uri[4:]]


def output(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    return done.stdout + done.stderr
