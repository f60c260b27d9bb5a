// A simple phone for test calls: one line, one call at a time. It uses SIP.js (MIT licence).
import { SimpleUser } from './node_modules/sip.js/lib/platform/web/index.js';

const at = (id) => document.getElementById(id);
// STUN and TURN servers. Browsers on the same network need none.
const iceServers = [];
let phone;

function show(state, { answer = false, hangup = false } = {}) {
  at('state').value = state;
  at('call').hidden = answer || hangup;
  at('answer').hidden = !answer;
  at('hangup').hidden = !hangup;
}

const idle = () => show('ready');
const fails = (error) => show(`failed: ${error.message || error}`);

at('account').addEventListener('submit', async (event) => {
  event.preventDefault();
  const [user] = at('address').value.split('@');
  phone = new SimpleUser(at('server').value, {
    aor: `sip:${at('address').value}`,
    media: { constraints: { audio: true, video: false }, remote: { audio: at('sound') } },
    reconnectionAttempts: 1000,
    reconnectionDelay: 2,
    userAgentOptions: {
      authorizationUsername: user,
      authorizationPassword: at('password').value,
      sessionDescriptionHandlerFactoryOptions: { peerConnectionConfiguration: { iceServers } },
    },
    delegate: {
      onServerConnect: () => phone.register().catch(fails),
      onServerDisconnect: () => show('not connected'),
      onRegistered: idle,
      onUnregistered: () => show('refused: is the password right?'),
      onCallReceived: () => show('incoming call', { answer: true, hangup: true }),
      onCallAnswered: () => show('in a call', { hangup: true }),
      onCallHangup: idle,
    },
  });
  try {
    await phone.connect();
    at('account').hidden = true;
    at('line').hidden = false;
  } catch (error) {
    fails(error);
  }
});

at('line').addEventListener('submit', (event) => {
  event.preventDefault();
  show('calling', { hangup: true });
  phone.call(`sip:${at('callee').value}`, {}, {
    requestDelegate: { onReject: (r) => setTimeout(() => show(`${r.message.statusCode} ${r.message.reasonPhrase}`)) },
  }).catch(fails);
});
at('answer').addEventListener('click', () => phone.answer().catch(fails));
at('hangup').addEventListener('click', () => (at('answer').hidden ? phone.hangup() : phone.decline()).catch(fails));
