#!/usr/bin/env python3
"""One PJSIP phone, driven by JSON lines: commands on standard input, events on standard output.

    pjsip_phone.py '{"user": "p1", "password": "x", "domain": "example.com", "proxy": "127.64.1.1:5060",
                     "transport": "udp", "ip": "127.64.1.9"}'

Commands: {"do": "call", "to": URI}, {"do": "answer", "code": 200}, {"do": "hangup"}, {"do": "quit"},
          {"do": "hold"}, {"do": "resume"}, {"do": "heard"}, {"do": "message", "to": URI, "text": TEXT}, {"do": "register"}.
Events:   {"event": "registered", "code": 200}, {"event": "incoming", "from": URI},
          {"event": "ringing"}, {"event": "established"}, {"event": "closed", "code": 486}; of its media
          {"event": "speaking"}, {"event": "holding"} (by itself), {"event": "held"} (by the other one) and
          {"event": "heard", "packets": 10}; of messages {"event": "message", "text": TEXT} and
          {"event": "delivered", "code": 200}.

With "claims": IP the phone names this address in Via, Contact and nowhere else, and does not learn a better one.
With "padding": N each of its SDP bodies is longer by N bytes.
"""
import json
import os
import select
import sys

import pjsua2 as pj


def tell(event, **more):
    sys.stdout.write(json.dumps(dict(event=event, **more)) + '\n')
    sys.stdout.flush()


class Call(pj.Call):
    """A call that says what happens to it."""

    padding = 0

    def onCallSdpCreated(self, prm):
        lines = Call.padding // 100
        if lines:
            prm.sdp.wholeSdp = prm.sdp.wholeSdp.rstrip() + '\r\n' + ('a=x-pad:' + 'z' * 90 + '\r\n') * lines

    def onCallState(self, prm):
        info = self.getInfo()
        if info.state == pj.PJSIP_INV_STATE_EARLY:
            tell('ringing', code=info.lastStatusCode)
        elif info.state == pj.PJSIP_INV_STATE_CONFIRMED:
            tell('established')
        elif info.state == pj.PJSIP_INV_STATE_DISCONNECTED:
            tell('closed', code=info.lastStatusCode, reason=info.lastReason)
            Account.ended.append(self)

    def onCallMediaState(self, prm):
        names = {pj.PJSUA_CALL_MEDIA_LOCAL_HOLD: 'holding', pj.PJSUA_CALL_MEDIA_REMOTE_HOLD: 'held',
                 pj.PJSUA_CALL_MEDIA_ACTIVE: 'speaking'}
        # The list is gone with what it belongs to.
        info = self.getInfo()
        for media in info.media:
            if media.status == pj.PJSUA_CALL_MEDIA_ACTIVE:
                # Without a source that speaks to it a stream sends next to nothing.
                microphone = pj.Endpoint.instance().audDevManager().getCaptureDevMedia()
                microphone.startTransmit(self.getAudioMedia(media.index))
            tell(names.get(media.status, 'no media'))


# PJ_EINVALIDOP: among others, an offer while another one has no answer yet.
BUSY = 70013


class Account(pj.Account):
    """The line; it holds one call at a time."""

    call = None
    ended = []

    def onRegState(self, prm):
        tell('registered' if prm.code // 100 == 2 else 'unregistered', code=prm.code, reason=prm.reason)

    def onInstantMessage(self, prm):
        tell('message', text=prm.msgBody)

    def onInstantMessageStatus(self, prm):
        tell('delivered', code=prm.code)

    def onIncomingCall(self, prm):
        Account.call = Call(self, prm.callId)
        info = Account.call.getInfo()
        tell('incoming', **{'from': info.remoteUri})
        ringing = pj.CallOpParam()
        ringing.statusCode = 180
        Account.call.answer(ringing)


def offer(change):
    """Changes the media of the call, as soon as no other change is under way (RFC 3264 section 4)."""
    for _ in range(500):
        try:
            return change()
        except pj.Error as error:
            if error.status != BUSY:
                raise
            pj.Endpoint.instance().libHandleEvents(20)
    raise TimeoutError('another change of the media is under way for ten seconds')


def do(account, command):
    parameter = pj.CallOpParam(True)
    what = command['do']
    if what == 'call':
        Account.call = Call(account)
        Account.call.makeCall(command['to'], parameter)
    elif what == 'answer':
        parameter.statusCode = command.get('code', 200)
        Account.call.answer(parameter)
    elif what == 'hold':
        offer(lambda: Account.call.setHold(parameter))
    elif what == 'resume':
        parameter.opt.flag = pj.PJSUA_CALL_UNHOLD
        offer(lambda: Account.call.reinvite(parameter))
    elif what == 'register':
        account.setRegistration(True)
    elif what == 'heard':
        tell('heard', packets=Account.call.getStreamStat(0).rtcp.rxStat.pkt)
    elif what == 'message':
        peer, to = pj.Buddy(), pj.BuddyConfig()
        to.uri, to.subscribe = command['to'], False
        peer.create(account, to)
        text = pj.SendInstantMessageParam()
        text.content = command['text']
        peer.sendInstantMessage(text)
    elif what == 'hangup' and Account.call and Account.call.isActive():
        Account.call.hangup(parameter)


def main():
    o = json.loads(sys.argv[1])
    endpoint = pj.Endpoint()
    endpoint.libCreate()
    config = pj.EpConfig()
    config.uaConfig.threadCnt = 0
    config.uaConfig.mainThreadOnly = True
    config.uaConfig.maxCalls = 4
    # There is nothing but silence to send, which the other one is to hear all the same.
    config.medConfig.noVad = True
    config.logConfig.level = config.logConfig.consoleLevel = int(os.environ.get('PJSIP_LOG', '0'))
    endpoint.libInit(config)
    endpoint.audDevManager().setNullDev()
    place = pj.TransportConfig()
    place.boundAddress = o['ip']
    place.port = 5061 if o['transport'] == 'tls' else 5060
    if o.get('roots'):
        place.tlsConfig.CaListFile = o['roots']
        place.tlsConfig.verifyServer = True
    if o.get('claims'):
        place.publicAddress = o['claims']
    Call.padding = o.get('padding', 0)
    kinds = {'udp': pj.PJSIP_TRANSPORT_UDP, 'tcp': pj.PJSIP_TRANSPORT_TCP, 'tls': pj.PJSIP_TRANSPORT_TLS}
    endpoint.transportCreate(kinds[o['transport']], place)
    endpoint.libStart()
    account_config = pj.AccountConfig()
    account_config.idUri = 'sip:%s@%s' % (o['user'], o['domain'])
    account_config.regConfig.registrarUri = 'sip:' + o['domain']
    account_config.regConfig.timeoutSec = 600
    account_config.sipConfig.authCreds.append(pj.AuthCredInfo('digest', '*', o['user'], 0, o['password']))
    account_config.sipConfig.proxies.append('sip:%s;lr;transport=%s' % (o['proxy'], o['transport']))
    if o.get('listening'):
        # By itself it asks for RFC 5626 over TCP, which a registrar behind a proxy that is no edge proxy has to refuse
        # (section 6), and names the port that its connection comes from, where nobody but the other end reaches it.
        account_config.natConfig.sipOutboundUse = 0
        account_config.natConfig.contactRewriteUse = 0
        account_config.sipConfig.contactForced = 'sip:%s@%s:5060;transport=%s' % (o['user'], o['ip'], o['transport'])
    if o.get('claims'):
        account_config.natConfig.contactRewriteUse = account_config.natConfig.viaRewriteUse = 0
    account_config.mediaConfig.transportConfig.boundAddress = o['ip']
    account_config.mediaConfig.transportConfig.publicAddress = o['ip']
    account = Account()
    account.create(account_config)
    running = True
    buffered = b''
    while running:
        endpoint.libHandleEvents(10)
        Account.ended.clear()
        while select.select([0], [], [], 0)[0]:
            data = os.read(0, 65536)
            if not data:
                running = False
                break
            buffered += data
        while b'\n' in buffered:
            line, buffered = buffered.split(b'\n', 1)
            command = json.loads(line)
            if command['do'] == 'quit':
                running = False
            else:
                try:
                    do(account, command)
                except pj.Error as error:
                    tell('error', reason=error.reason)
    Account.call = None
    Account.ended.clear()
    account.shutdown()
    endpoint.libDestroy()


if __name__ == '__main__':
    main()
