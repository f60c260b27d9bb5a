// One headless Chromium with a phone in it. Orders come as lines of JSON, events go out so.
//
//   node driver.js CHROMIUM BUNDLE PROFILE PIN [URL]
//
// PIN is the hash of the server's public key, because the certificate is from an authority of the test. With a URL the
// driver shows that page instead of the bundle. Commands fill its fields and click its buttons, and each change of its
// state is an event.
const fs = require('fs');
const readline = require('readline');
const puppeteer = require('puppeteer-core');

async function main([chromium, bundle, profile, pin, url]) {
  const browser = await puppeteer.launch({
    executablePath: chromium, userDataDir: profile, headless: true,
    args: ['--no-sandbox', '--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream',
      '--disable-dev-shm-usage', '--disable-gpu',
      // A page may connect to this machine without a question to the user.
      '--disable-features=LocalNetworkAccessChecks', `--ignore-certificate-errors-spki-list=${pin}`],
  });
  const page = await browser.newPage();
  const say = (event) => process.stdout.write(JSON.stringify(event) + '\n');
  page.on('pageerror', (error) => say({ event: 'fault', text: String(error) }));
  await page.exposeFunction('reported', say);
  if (url) {
    await page.goto(url, { waitUntil: 'networkidle0' });
    await page.evaluate(watch);
  } else {
    // A page of localhost may use the microphone without a certificate.
    await page.setRequestInterception(true);
    page.on('request', (request) => request.respond({ contentType: 'text/html', body: '<title>phone</title>' }));
    await page.goto('http://localhost/');
    await page.addScriptTag({ content: fs.readFileSync(bundle, 'utf8') });
  }
  say({ event: 'ready' });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { do: order, words } = JSON.parse(line);
    page.evaluate((o, w) => window.act(o, ...w), order, words).catch((error) => say({ event: 'fault', text: String(error) }));
    if (order === 'quit') break;
  }
  await browser.close();
}

// Runs in the page given by URL.
function watch() {
  const at = (id) => document.getElementById(id);
  window.act = (order, id, text) => {
    if (order === 'fill') at(id).value = text;
    if (order === 'click') at(id).click();
  };
  const state = at('state');
  new MutationObserver(() => window.reported({ event: state.value })).observe(state, { childList: true, characterData: true });
}

// Its standard input stays open, so it would not end by itself.
main(process.argv.slice(2)).then(() => process.exit(0)).catch((error) => {
  console.error(error);
  process.exit(1);
});
