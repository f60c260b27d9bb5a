// The dashboard in headless Chromium, used as people use it. What it finds wrong it says, and ends with 1.
//
//   node dashboard.js CHROMIUM PROFILE URL STEP PICTURES SECONDS [TOKEN]
//
// STEP: `tour` visits all pages of a server, `hostile` those with texts of strangers, `balance` those of a
// balancer that wants TOKEN. PICTURES: a folder for pictures, or `-`. SECONDS: how long charts fill before.
const path = require('path');
const puppeteer = require('puppeteer-core');
const axe = require('axe-core');

const SERVER = [['', 'Overview'], ['bindings', 'Registrations'], ['users', 'Users'], ['calls', 'Calls'],
  ['trunks', 'Trunks'], ['connections', 'Connections'], ['refused', 'Refused requests'], ['server', 'Server'], ['x', 'No such page']];
const BALANCER = [['', 'Overview'], ['nodes', 'Nodes'], ['connections', 'Connections'], ['server', 'Server'], ['calls', 'No such page']];
const WIDTHS = [360, 768, 1280, 2560];
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const found = [];
let isProbing = false;

function must(condition, ...words) {
  if (!condition) throw new Error(words.join(' '));
}

async function main([chromium, profile, url, step, pictures, seconds, token]) {
  const browser = await puppeteer.launch({ executablePath: chromium, userDataDir: profile, headless: true,
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--disable-features=LocalNetworkAccessChecks'] });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(30000);
    const words = [];
    // Without the token the first answer is 401, and Chromium says so.
    const expected = (text) => (token && text.includes('401')) || (isProbing && text.includes('Content Security Policy'));
    page.on('console', (message) => expected(message.text()) || words.push(`console: ${message.text()}`));
    page.on('pageerror', (error) => words.push(`fault: ${error}`));
    page.on('request', (request) => request.url().startsWith(url) || words.push(`request elsewhere: ${request.url()}`));
    await page.setViewport({ width: 1200, height: 820 });
    await page.goto(url);
    await { tour, hostile, balance }[step](page, { pictures, seconds: Number(seconds), token });
    must(!words.length, words.join('; '));
    console.log(found.join(', '));
  } finally {
    await browser.close();
  }
}

/** Waits until the page has this head and all its lists. */
async function arrived(page, title) {
  const is = (wanted) => document.querySelector('main h1')?.textContent === wanted;
  await page.waitForFunction(is, {}, title).catch(async () => {
    const said = await page.evaluate(() => document.body.innerText.slice(0, 400));
    throw new Error(`no page "${title}", but: ${said}`);
  });
  await page.waitForFunction(() => [...document.querySelectorAll('.scroll')].every((region) => !region.hasAttribute('aria-busy'))
    && [...document.querySelectorAll('.pages output')].every((said) => said.textContent)
    && ![...document.querySelectorAll('.trouble')].some((trouble) => !trouble.hidden));
}

async function open(page, hash, title) {
  await page.evaluate((to) => { location.hash = to; }, `#/${hash}`);
  await arrived(page, title);
}

const text = (page, selector) => page.$eval(selector, (node) => node.textContent);
const rows = (page) => page.$$eval('tbody tr', (all) => all.map((row) => row.textContent));

/** What axe finds. */
async function judge(page, where) {
  await page.evaluate(axe.source);
  const faults = await page.evaluate(async (rules) => {
    const { violations } = await window.axe.run(document, { runOnly: rules, resultTypes: ['violations'] });
    return violations.map(({ id, nodes }) => `${id} at ${nodes.slice(0, 3).map((node) => node.target).join(' ')}`);
  }, RULES);
  must(!faults.length, `axe, ${where}:`, faults.join('; '));
}

/** Sets the colours, and that little should move: no colour is on its way to another one when axe looks. */
async function light(page, scheme) {
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }]);
}

/** Visits pages: each for itself, in the dark, and at every width. */
async function visit(page, pages) {
  for (const [hash, title] of pages) {
    await open(page, hash, title);
    await judge(page, title);
    await light(page, 'dark');
    await judge(page, `${title}, dark`);
    await light(page, 'light');
    for (const width of WIDTHS) {
      await page.setViewport({ width, height: 820 });
      const needed = await page.evaluate(() => document.documentElement.scrollWidth);
      must(needed <= width, `${title}: ${needed} pixels wide in a window of ${width}`);
    }
    await page.setViewport({ width: 1200, height: 820 });
  }
  found.push(`${pages.length} pages`);
}

/** Live values come, and change what is shown. */
async function moves(page) {
  await page.waitForFunction(() => document.getElementById('link').textContent === 'Live values arrive.');
  const drawn = () => [...document.querySelectorAll('.drawing .line')].map((line) => line.getAttribute('d')).join();
  const before = await page.evaluate(drawn);
  await page.waitForFunction((old) => [...document.querySelectorAll('.drawing .line')]
    .map((line) => line.getAttribute('d')).join() !== old, {}, before);
}

async function keyboard(page) {
  await page.keyboard.press('Tab');
  must(await page.evaluate(() => document.activeElement.id) === 'skip', 'the first stop of Tab is not the skip link');
  await page.keyboard.press('Enter');
  must(await page.evaluate(() => document.activeElement.id) === 'main', 'the skip link does not lead to the content');
  await page.keyboard.press('Tab');
  const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  must(ring === 'solid', 'the focus cannot be seen');
}

async function search(page) {
  await open(page, 'bindings', 'Registrations');
  const all = await rows(page);
  must(all.some((row) => !row.includes('Zoiper')), 'every registration is a Zoiper');
  await page.type('input[type=search]', 'ZOIPER');
  await page.waitForFunction(() => [...document.querySelectorAll('tbody tr')].every((row) => row.textContent.includes('Zoiper')));
  await arrived(page, 'Registrations');
  const some = await rows(page);
  must(some.length > 0 && some.every((row) => row.includes('Zoiper')), 'found:', some.join('; '));
  must(page.url().endsWith('#/bindings?q=ZOIPER'), page.url());
  await page.type('input[type=search]', 'nobody');
  await page.waitForFunction(() => document.querySelector('.pages output').textContent === 'Nothing found.');
}

/** Pages of a list, there and back. */
async function turn(page) {
  await open(page, '', 'Overview');
  const began = Date.now();
  await open(page, 'bindings', 'Registrations');
  found.push(`registrations shown after ${Date.now() - began} ms`);
  const first = (await rows(page)).join();
  const press = async (name, number) => {
    await page.evaluate((wanted) => [...document.querySelectorAll('.pages button')].find((b) => b.textContent === wanted).click(), name);
    await page.waitForFunction((wanted) => document.querySelector('.pages output').textContent.startsWith(wanted), {}, `Page ${number}:`);
    await arrived(page, 'Registrations');
  };
  await press('Next', 2);
  must((await rows(page)).join() !== first, 'the second page is the first one');
  await press('Previous', 1);
}

/** Follows the first link of a list, in one step: rows are replaced now and then. Its text. */
function follow(page) {
  return page.$eval('tbody th a', (link) => {
    link.click();
    return link.textContent;
  });
}

/** From lists to a user and to a call. */
async function details(page) {
  await open(page, 'bindings', 'Registrations');
  const user = await follow(page);
  await arrived(page, user);
  must((await rows(page)).some((row) => row.includes(user)), 'no binding on the page of', user);
  await judge(page, 'user');
  await open(page, 'calls', 'Calls');
  await page.waitForSelector('tbody th a');
  const id = await follow(page);
  await arrived(page, 'Call');
  await page.waitForSelector('.facts dd, main p:not([hidden])');
  must((await text(page, 'main')).includes(id) || (await text(page, 'main')).includes('The call is over'), 'no call', id);
  await judge(page, 'call');
}

async function pause(page) {
  await page.click('#pause');
  await page.waitForFunction(() => document.getElementById('link').textContent === 'Live values are paused.');
  await page.click('#pause');
  await moves(page);
}

async function take(page, pictures, name) {
  await page.evaluate(() => scrollTo(0, 0));
  await page.evaluate(() => document.activeElement.blur());
  if (pictures !== '-') await page.screenshot({ path: path.join(pictures, `${name}.png`), type: 'png' });
}

async function tour(page, { pictures, seconds }) {
  await arrived(page, 'Overview');
  await keyboard(page);
  await moves(page);
  await page.waitForFunction(() => /answered: [1-9]/.test(document.querySelector('.plots').textContent));
  await new Promise((resolve) => { setTimeout(resolve, seconds * 1000); });
  await page.setViewport({ width: 1200, height: 720 });
  await take(page, pictures, 'overview');
  await light(page, 'dark');
  await page.setViewport({ width: 390, height: 820 });
  await take(page, pictures, 'overview-narrow');
  await light(page, 'light');
  await page.setViewport({ width: 1200, height: 440 });
  await open(page, 'calls', 'Calls');
  await take(page, pictures, 'calls');
  await visit(page, SERVER);
  await search(page);
  await turn(page);
  await details(page);
  await open(page, '', 'Overview');
  await pause(page);
}

/** Texts of strangers stay texts. */
async function hostile(page) {
  const is = async (where, ...wanted) => {
    const shown = await text(page, 'main');
    for (const one of wanted) must(shown.includes(one), `${where} does not show ${one}: ${shown}`);
    const made = await page.$$eval('main img, main script, main b', (all) => all.length);
    must(!made, `${where}: a text has become ${made} elements`);
  };
  await arrived(page, 'Overview');
  await open(page, 'bindings?q=onerror', 'Registrations');
  await is('registrations', '<img src=x onerror=hacked=1>');
  await open(page, 'user/mallory@example.com', 'mallory@example.com');
  await is('user', '<img src=x onerror=hacked=1>');
  await open(page, 'calls?q=hacked', 'Calls');
  await is('calls', '<script>hacked=1</script>');
  await page.evaluate(() => [...document.querySelectorAll('tbody th a')].find((a) => a.textContent.includes('<script>')).click());
  await arrived(page, 'Call');
  await page.waitForSelector('.facts dd');
  await is('call', '<script>hacked=1</script>');
  await open(page, 'refused', 'Refused requests');
  await is('refused');
  await open(page, 'user/%3Cimg%20src%3Dx%20onerror%3Dhacked%3D1%3E', '<img src=x onerror=hacked=1>');
  await is('head');
  await open(page, '%zz', 'No such page');
  must(await page.evaluate(() => window.hacked === undefined), 'a text of a stranger ran');
  // What a script of ours may not do either.
  isProbing = true;
  const refused = await page.evaluate(() => new Promise((resolve) => {
    addEventListener('securitypolicyviolation', (event) => resolve(event.effectiveDirective), { once: true });
    const script = document.createElement('script');
    script.textContent = 'window.hacked = 1';
    document.body.append(script);
    setTimeout(resolve, 5000, 'nothing');
  })).catch((error) => String(error));
  must(refused === 'script-src-elem' && await page.evaluate(() => window.hacked === undefined), 'an inline script ran:', refused);
}

async function balance(page, { token }) {
  await arrived(page, 'Token');
  await judge(page, 'token');
  await page.type('#token', 'wrong-wrong-wrong-wrong');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('#token')?.value === '');
  await page.type('#token', token);
  await page.keyboard.press('Enter');
  await arrived(page, 'Overview');
  await moves(page);
  await visit(page, BALANCER);
}

main(process.argv.slice(2)).then(() => process.exit(0)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
