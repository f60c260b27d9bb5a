"""Scenarios over TLS: phones of several makers, and what programs find that look for weaknesses."""
import re
import shutil
import subprocess

import phones
from harness import servers
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


@scenario
def tls_scanners(run):
    """sslscan, testssl.sh and `openssl s_client` find no weakness."""
    missing = [tool for tool in ('sslscan', 'testssl', 'openssl') if not shutil.which(tool)]
    if missing:
        raise LeftOut('not installed: ' + ', '.join(missing))
    with servers.Strowger(run.bin, workers=2, users=CREW, secure=True) as server:
        place = '%s:%d' % server.place('tls')
        found = output('sslscan', '--no-colour', place)
        on = re.findall(r'^(\S+)\s+enabled$', found, re.M)
        must(sorted(on) == ['TLSv1.2', 'TLSv1.3'], 'sslscan: versions', on)
        weak = [line for line in found.splitlines() if re.match(r'(Accepted|Preferred)', line) and not re.search(r'GCM|POLY1305', line)]
        must(not weak, 'sslscan: suites', weak)
        for old in ('-tls1', '-tls1_1'):
            must('Cipher is (NONE)' in output('openssl', 's_client', old, '-connect', place, '-cipher', 'ALL:@SECLEVEL=0'),
                 'openssl', old, 'was taken')
        whole = output('testssl', '--quiet', '--color', '0', '--warnings', 'off', '--protocols', '--server-defaults',
                       '--vulnerable', '--fs', '--std', '--add-ca', server.authority.roots, place)
        # A private authority publishes no revocations.
        bad = [line.strip() for line in whole.replace('NOT ok -- neither CRL nor OCSP', '').splitlines() if 'NOT ok' in line or 'VULNERABLE' in re.sub('not vulnerable', '', line)]
        must(not bad, 'testssl.sh:', bad)
        must('TLS 1.3' in whole, 'testssl.sh saw nothing:', whole[-400:])
        return 'TLS 1.2 and 1.3 alone, nothing found'


def output(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    return done.stdout + done.stderr
