"""Kamailio as a carrier at which the server under test has an account."""
import json
import os
import subprocess

from harness import net, servers
from scenarios import must, scenario

HERE = os.path.dirname(os.path.abspath(__file__))
USER, PASSWORD = '4930555', 'carrier-secret'


class Carrier:
    """Strowger, its carrier, the telephone network behind that, and ben, who is called by the account's number."""

    def __init__(self, run):
        self.ip = net.fresh_ip()
        self.far, self.near = net.Answerer(), net.Answerer()
        self.server = servers.Strowger(run.bin, 'b.example', 2, users=[('ben', 'secret')])
        self.password = os.path.join(self.server.dir, 'carrier.password')
        self.write(PASSWORD)
        with open(self.server.config, 'w') as f:
            f.write('[[trunk]]\nname = "carrier"\ntargets = ["sip:%s:5060"]\nsources = ["192.0.2.77"]\nprefixes = ["00"]\n'
                    'user = "%s"\npassword_file = "%s"\nregister = { expires = 60 }\n'
                    '[[route]]\nuser = "%s"\ntargets = ["sip:ben@%s:5060"]\n'
                    % (self.ip, USER, self.password, USER, self.near.ip))
        self.kamailio = servers.Kamailio(os.path.join(HERE, 'kamailio_carrier.cfg'), [
            'ACCOUNT %s' % self.server.ip, 'USER "%s"' % USER, 'PASSWORD "%s"' % PASSWORD, 'FAR "%s:5060"' % self.far.ip])
        self.kamailio.ip = self.ip

    def __enter__(self):
        try:
            self.kamailio.start()
            self.server.start()
            self.ben = net.Client(self.server.address, 'ben', 'secret', 'b.example')
            self.ann = net.Client(self.kamailio.address, 'ann', domain='far.example')
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for end in ('ben', 'ann', 'far', 'near'):
            if hasattr(self, end):
                getattr(self, end).close()
        self.server.__exit__()
        self.kamailio.__exit__()

    def write(self, password):
        with open(self.password, 'w') as f:
            f.write(password + '\n')
        os.chmod(self.password, 0o600)

    def ctl(self, *words):
        return subprocess.run([self.server.binary, 'ctl', *words, '--admin', self.server.admin], capture_output=True, text=True,
                              timeout=30, check=True).stdout

    def registration(self):
        rows = json.loads(self.ctl('trunks', '--output', 'json'))
        return next(row for row in rows if row['target'].startswith('register'))

    def is_in_state(self, state):
        net.poll('the registration is ' + state, 30, lambda: self.registration()['state'] == state)

    @staticmethod
    def talk(caller, uri, callee):
        """A call that the caller ends. Returns its status."""
        answer = caller.ask('INVITE', uri, lines=['Contact: <sip:%s@%s:5060>' % (caller.user, caller.ip)])
        must(answer, 'no final answer to', uri)
        if answer.status == 200:
            caller.in_dialog('ACK', answer)
            bye = caller.in_dialog('BYE', answer)
            must(bye and bye.status == 200, 'the BYE got', bye and bye.start)
            must(answer.get('Call-ID') in callee.ended, 'the BYE went elsewhere')
        return answer.status

    def call_out(self):
        return self.talk(self.ben, 'sip:0044123@b.example', self.far)

    def call_in(self):
        return self.talk(self.ann, 'sip:%s@carrier.example' % USER, self.near)


@scenario
def kamailio_carrier(run):
    """Kamailio as a carrier that demands registration and digest: calls both ways, refresh, old nonces, a wrong password."""
    with Carrier(run) as carrier:
        carrier.is_in_state('registered')
        calls = 0
        for _ in range(3):
            for way, status in (('out', carrier.call_out()), ('in', carrier.call_in())):
                must(status == 200, 'call', way, 'got', status)
                calls += 1
        sent = carrier.registration()['calls']
        # Ten seconds are granted, and a nonce lives for twelve.
        net.poll('it is refreshed twice', 40, lambda: carrier.registration()['calls'] >= sent + 2)
        for way, status in (('out', carrier.call_out()), ('in', carrier.call_in())):
            must(status == 200, 'call', way, 'after a refresh got', status)
            calls += 1
        carrier.write('wrong')
        carrier.ctl('reload')
        carrier.is_in_state('refused')
        status = carrier.call_out()
        must(status == 403, 'a call with a wrong password got', status)
        carrier.write(PASSWORD)
        carrier.ctl('reload')
        carrier.is_in_state('registered')
        must(carrier.call_out() == 200, 'no call with the right password again')
        return '%d calls both ways, refreshed, refused and taken again' % (calls + 1)
