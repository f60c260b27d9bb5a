// Runs in a page: a phone of JsSIP or SIP.js behind one face. Events go to `report`, orders come to `act`.
import * as JsSIP from 'jssip';
import { SimpleUser } from 'sip.js/lib/platform/web/index.js';

const AUDIO = { audio: true, video: false };

// Waits for the ACK of the other end's offer: two offers at a time are refused (RFC 3261 section 14).
async function until(ready) {
  for (let tries = 0; tries < 200; tries++) {
    if (ready()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('another offer was not finished within ten seconds');
}

class OfJsSip {
  constructor(o) {
    this.ua = new JsSIP.UA({
      sockets: [new JsSIP.WebSocketInterface(o.url)], uri: o.uri, password: o.password,
      connection_recovery_min_interval: 1, connection_recovery_max_interval: 2,
    });
    this.ua.on('registered', () => report('registered'));
    this.ua.on('registrationFailed', (e) => report('unregistered', { cause: e.cause }));
    this.ua.on('newMessage', (e) => {
      if (e.originator === 'remote') report('message', { text: e.request.body });
    });
    this.ua.on('newRTCSession', (e) => {
      this.session = e.session;
      if (e.originator === 'remote') report('incoming', { from: e.request.from.uri.user });
      e.session.on('confirmed', () => report('established'));
      e.session.on('ended', () => report('closed', { code: 0 }));
      for (const [name, event] of [['hold', 'held'], ['unhold', 'released']]) {
        e.session.on(name, (h) => {
          if (h.originator === 'remote') report(event);
        });
      }
      e.session.on('failed', (f) => {
        report('closed', { code: (f.message && f.message.status_code) || 0, cause: f.cause });
      });
    });
    this.ua.start();
  }

  call(to) { this.ua.call(to, { mediaConstraints: AUDIO, pcConfig: { iceServers: [] } }); }
  answer() { this.session.answer({ mediaConstraints: AUDIO, pcConfig: { iceServers: [] } }); }
  busy() { this.session.terminate({ status_code: 486 }); }
  hangup() { this.session.terminate(); }
  // Its events come before the answer to the re-INVITE. It returns `false` if it cannot make an offer.
  hold() { return until(() => this.session.hold({}, () => report('holding'))); }
  resume() { return until(() => this.session.unhold({}, () => report('speaking'))); }
  message(to, text) { this.ua.sendMessage(to, text); }
  register() { this.ua.register(); }
  quit() { this.ua.stop(); }
}

class OfSipJs {
  constructor(o) {
    this.user = new SimpleUser(o.url, {
      aor: o.uri,
      media: { constraints: AUDIO },
      reconnectionAttempts: 30,
      reconnectionDelay: 1,
      userAgentOptions: {
        authorizationUsername: o.user, authorizationPassword: o.password, logLevel: 'error',
        sessionDescriptionHandlerFactoryOptions: {
          peerConnectionConfiguration: { iceServers: [] }, iceGatheringTimeout: 500,
        },
      },
      delegate: {
        onRegistered: () => report('registered'),
        onUnregistered: () => report('unregistered'),
        onServerConnect: () => this.user.register(),
        onMessageReceived: (text) => report('message', { text }),
        onCallReceived: () => report('incoming'),
        onCallAnswered: () => {
          this.user.session.delegate.onInvite = (request) => {
            report(/^a=(sendonly|inactive)/m.test(request.body) ? 'held' : 'released');
          };
          report('established');
        },
        onCallHangup: () => report('closed', { code: 0 }),
        onCallHold: (held) => report(held ? 'holding' : 'speaking'),
      },
    });
    this.user.connect();
  }

  call(to) {
    return this.user.call(to, {}, { requestDelegate: { onReject: (r) => report('refused', { code: r.message.statusCode }) } });
  }
  answer() { return this.user.answer(); }
  busy() { return this.user.session.reject({ statusCode: 486 }); }
  hangup() { return this.user.hangup(); }
  async hold() { await this.acknowledged(); await this.user.hold(); }
  async resume() { await this.acknowledged(); await this.user.unhold(); }
  acknowledged() { return until(() => !this.user.session.dialog.reinviteUserAgentServer); }
  message(to, text) { return this.user.message(to, text); }
  register() { return this.user.register(); }
  quit() { return this.user.disconnect(); }
}

const phones = { jssip: OfJsSip, sipjs: OfSipJs };
let phone;

function report(event, more) {
  window.reported({ event, ...more });
}

window.act = async (order, ...words) => {
  try {
    if (order === 'begin') phone = new phones[words[0].kind](words[0]);
    else await phone[order](...words);
  } catch (error) {
    report('fault', { order, text: String(error && error.stack) });
  }
};
