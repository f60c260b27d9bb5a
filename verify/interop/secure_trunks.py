"""Kamailio as a trunk over TLS, with certificates in both directions."""
import json
import os
import shutil
import subprocess

from harness import net, servers
from harness.authority import Authority
from scenarios import must, scenario

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = 'sip.carrier.example'
NUMBER = '+493055510'

# Kamailio as server and as client. It requires a certificate from clients, and verifies the servers.
SIDE = '''[%s:default]
method = TLSv1.2+
verify_certificate = yes
require_certificate = yes
ca_list = %s
'''
OWN = 'certificate = %s\nprivate_key = %s\n'


class Trunk:
    """Strowger, whose trunk for the domain a.example is a Kamailio at an address that stays the same."""

    def __init__(self, run, folder):
        self.carriers, self.ours = Authority(os.path.join(folder, 'carriers')), Authority(os.path.join(folder, 'ours'), 'Ours')
        self.folder, self.ip = folder, net.fresh_ip()
        # They answer for all users in a.example, and for the number that the trunk alone may call.
        self.far, self.near = net.Answerer(), net.Answerer()
        account = self.carriers.issue('account.example')
        config = ('[tls]\nclient_certificates = "offered"\nroots = "%s"\n'
                  '[[trunk]]\nname = "carrier"\ntargets = ["sips:%s"]\nverify = "%s"\nsources = ["tls:%s"]\ndomains = ["a.example"]\n'
                  'certificate = { chain = "%s", key = "%s" }\nroots = "%s"\n'
                  '[[route]]\nuser = "%s"\ntargets = ["sip:ben@%s:5060"]\n'
                  % (self.ours.roots, self.ip, NAME, NAME, *account, self.carriers.roots, NUMBER, self.near.ip))
        self.server = servers.Strowger(run.bin, 'b.example', 2, config=config, users=[('ben', 'secret')], secure=self.ours)

    def __enter__(self):
        self.server.start()
        self.ben = net.Client(self.server.address, 'ben', 'secret', 'b.example')
        return self

    def __exit__(self, *_):
        for end in (self.ben, self.far, self.near):
            end.close()
        self.server.__exit__()

    def kamailio(self, shown, client=None):
        """Kamailio with this server certificate. As a client it sends `client`, or none if that is False."""
        file = os.path.join(self.folder, 'tls.cfg')
        client = shown if client is None else client
        # It must trust both authorities: ours issued the certificate of our server, the carrier's issued our client certificate.
        roots = os.path.join(self.folder, 'roots.pem')
        with open(roots, 'wb') as f:
            for authority in (self.carriers, self.ours):
                with open(authority.roots, 'rb') as one:
                    f.write(one.read())
        with open(file, 'w') as f:
            f.write(SIDE % ('server', roots) + OWN % shown + SIDE % ('client', roots) + (OWN % client if client else ''))
        carrier = servers.Kamailio(os.path.join(HERE, 'kamailio_trunk.cfg'), [
            'WITH_TLS "%s"' % file, 'A "%s:5060"' % self.far.ip, 'B "%s:5061;transport=tls"' % self.server.ip])
        carrier.ip, carrier.secure = self.ip, True
        return carrier

    def counted(self, name):
        return self.server.metric(name)

    def call_in(self, carrier):
        """A caller behind Kamailio calls the number. Returns the status."""
        caller = net.Client(carrier.address, 'ann', domain='a.example')
        try:
            return self.talk(caller, 'sip:%s@b.example' % NUMBER, self.near)
        finally:
            caller.close()

    def call_out(self):
        """ben calls a user of a.example. Returns the status."""
        return self.talk(self.ben, 'sip:zoe@a.example', self.far)

    @staticmethod
    def talk(caller, uri, callee):
        answer = caller.ask('INVITE', uri, lines=['Contact: <sip:%s@%s:5060>' % (caller.user, caller.ip)])
        must(answer, 'no final answer to', uri)
        if answer.status == 200:
            caller.in_dialog('ACK', answer)
            bye = caller.in_dialog('BYE', answer)
            must(bye and bye.status == 200, 'the BYE got', bye and bye.start)
            must(answer.get('Call-ID') in callee.ended, 'the BYE went elsewhere')
        return answer.status

    def targets(self):
        """The output of `ctl trunks`."""
        done = subprocess.run([self.server.binary, 'ctl', 'trunks', '--output', 'json', '--admin', self.server.admin],
                              capture_output=True, text=True, timeout=30, check=True)
        return json.loads(done.stdout)

    def says(self, what):
        net.poll('the log says %r' % what, 20, lambda: self.server.process.said(what))


def refused(trunk, shown, client, name, why, event, counter):
    """Calls from a Kamailio that proves no name of the trunk: refused, logged, counted."""
    with trunk.kamailio(shown, client) as carrier:
        before = trunk.counted(counter)

        def told():
            status = trunk.call_in(carrier)
            must(status >= 400, name, 'was taken for the trunk:', status)
            return trunk.server.process.said(event) and trunk.server.process.said(why)
        # There is one log line in ten seconds at most.
        net.poll('the log says %s: %s' % (event, why), 30, told)
        must(trunk.counted(counter) > before, counter, 'counts nothing:', name)
        return trunk.call_out()


@scenario
def tls_kamailio_trunk(run):
    """Kamailio as a trunk over TLS with client certificates: both ways; none, another name, another authority."""
    folder = servers.tempfile.mkdtemp(prefix='strowger-trunk-')
    try:
        with Trunk(run, folder) as trunk:
            good = trunk.carriers.issue(NAME)
            other = trunk.carriers.issue('other.example')
            foreign = Authority(os.path.join(folder, 'foreign'), 'Foreign').issue(NAME)
            # Its server certificate is valid, so calls to it succeed.
            status = refused(trunk, good, False, 'no certificate', 'found="no certificate"', 'trunk_not_proven',
                             'strowger_trunk_unproven_total{certificate="none"}')
            must(status == 200, 'a call to the trunk got', status)
            status = refused(trunk, other, None, 'another name', 'found="other.example"', 'trunk_not_proven',
                             'strowger_trunk_unproven_total{certificate="other"}')
            must(status == 500, 'a call went to another name:', status)
            trunk.says('the certificate is of other.example, not of ' + NAME)
            last = trunk.targets()[0]
            must(last['state'] == 'down' and 'other.example' in last['why'], 'ctl trunks:', last)
            status = refused(trunk, foreign, None, 'another authority', 'UnknownIssuer', 'tls_peer_refused',
                             'strowger_tls_failed_certificate_total')
            must(status == 500, 'a call went to another authority:', status)
            with trunk.kamailio(good) as carrier:
                net.poll('the trunk is up', 30, lambda: trunk.targets()[0]['state'] == 'up')
                for round_ in range(3):
                    for way, status in (('in', trunk.call_in(carrier)), ('out', trunk.call_out())):
                        must(status == 200, 'call', way, 'got', status)
                must(carrier.process.said('peer account.example verified 1'), 'Kamailio saw another certificate:\n' + carrier.process.log())
            return '6 calls both ways, 5 refused'
    finally:
        shutil.rmtree(folder, ignore_errors=True)
