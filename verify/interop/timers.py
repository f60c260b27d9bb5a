"""Session timers (RFC 4028): PJSIP knows them, baresip does not."""
import json
import urllib.request

from harness import net, servers
from scenarios import CREW, crew, dismiss, must, scenario, set_up

# Seconds: the shortest interval there is. Whoever refreshes does so at half of it.
INTERVAL = 90


def calls(server):
    """The calls in the list of the admin API, by the user who called."""
    with urllib.request.urlopen('http://%s/v1/calls' % server.admin, timeout=30) as answer:
        return {call['from'].split('@')[0].removeprefix('sip:'): call for call in json.load(answer)['items']}


@scenario
def session_timers(run):
    """Calls from and to a phone without session timers are refreshed by the other one, and listed as live."""
    config = '[proxy]\nsession_interval = %d\n' % INTERVAL
    with servers.Strowger(run.bin, workers=2, users=CREW, config=config) as server:
        all_ = crew(server, ('udp',))
        try:
            by_name = {phone.user: phone for phone in all_}
            pairs = [('p1udp', 'b1udp'), ('b2udp', 'p2udp')]
            for caller, callee in pairs:
                set_up(by_name[caller], by_name[callee])
            listed = calls(server)
            for caller, callee in pairs:
                call = listed[caller]
                must((call['session'], call['session_interval_s']) == ('live', INTERVAL), caller, 'to', callee, call)

            def refreshed():
                now = [calls(server)[caller] for caller, _ in pairs]
                return all(call['age_s'] > INTERVAL / 2 and call['refreshed_s'] < 10 for call in now)
            net.poll('both calls are refreshed', INTERVAL, refreshed)
            must(all(call['session'] == 'live' for call in calls(server).values()), calls(server))
            for caller, callee in pairs:
                by_name[caller].hangup()
                by_name[callee].wait('closed')
            return 'a refresh in each of %d calls' % len(pairs)
        finally:
            dismiss(all_)
