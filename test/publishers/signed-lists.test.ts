import { createHash, createHmac, createPrivateKey, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readVerificationKey } from '../../src/webhooks/schemes/scheme-keys.ts';
import { verifyWithSpec } from '../../src/webhooks/schemes/verify.ts';
import { builtIn, deliveryOf, ed25519Pair, judge, NOW } from '../webhooks/schemes/fixtures.ts';

const BODY = '{"event":"license.created"}';
const URL_CALLED = 'https://hooks.example.com/flows/api/webhook/in';

describe('the headers that a header of Contentful’s lists', () => {
  const KEY = 'a signing secret of sixty-four characters, which is not decoded.';
  /** As the documentation describes it. */
  function signed(headers: Record<string, string>, names = Object.keys(headers)) {
    const list = names.join(',');
    const all: Record<string, string> = { ...headers, 'x-contentful-signed-headers': list };
    const text = list
      .split(',')
      .map((name) => name.trim().toLowerCase())
      .sort()
      .map((name) => `${name}:${(Object.hasOwn(all, name) ? (all[name] ?? '') : '').trim()}`)
      .join(';');
    const signature = createHmac('sha256', KEY).update(`POST\n/flows/api/webhook/in\n${text}\n${BODY}`).digest('hex');
    return { ...all, 'x-contentful-signature': signature };
  }
  const TIME = { 'x-contentful-timestamp': String(NOW) };
  const NAMES = ['x-contentful-signed-headers', 'x-contentful-timestamp'];
  const outcome = async (headers: Record<string, string>) => {
    const inputs = { webhookSignatureScheme: 'Contentful', webhookPublicUrl: URL_CALLED };
    const verdict = await judge(
      { inputs, key: KEY },
      deliveryOf({ headers, body: BODY, path: '/flows/api/webhook/in' }),
    );
    return verdict.passed ? 'passed' : `${verdict.reason}: ${verdict.detail}`;
  };

  it('are signed with the time among them, in any order and case of the list', async () => {
    expect(await outcome(signed(TIME, NAMES))).toBe('passed');
    expect(await outcome(signed(TIME, [...NAMES].reverse()))).toBe('passed');
    expect(await outcome(signed(TIME, ['X-Contentful-Timestamp ', ' x-contentful-signed-headers']))).toBe('passed');
    expect(await outcome(signed({ ...TIME, 'x-own': 'a; b: c,d' }, [...NAMES, 'x-own']))).toBe('passed');
  });

  it.each<[string, Record<string, string>, string[], string]>([
    ['the time', TIME, ['x-contentful-signed-headers'], 'does not list x-contentful-timestamp'],
    ['the list itself', TIME, ['x-contentful-timestamp'], 'does not list x-contentful-signed-headers'],
    ['nothing', TIME, [''], 'does not list'],
    ['what is not there', TIME, [...NAMES, 'x-own'], 'the header x-own, which is signed, is absent'],
    ['what every object has', TIME, [...NAMES, 'constructor'], 'the header constructor, which is signed, is absent'],
  ])('are refused where the list names %s', async (_what, headers, names, expected) => {
    expect(await outcome(signed(headers, names))).toContain(expected);
  });

  it('are refused without the list, and with one that was added to', async () => {
    const { 'x-contentful-signed-headers': list = '', ...others } = signed(TIME, NAMES) as Record<string, string>;
    expect(await outcome(others)).toContain('is absent');
    const added = { ...others, 'x-contentful-signed-headers': `${list},x-own`, 'x-own': 'v' };
    expect(await outcome(added)).toContain('signature_mismatch');
    // Node joins repeated headers like this.
    const twice = { ...others, 'x-contentful-signed-headers': `${list}, ${list}` };
    expect(await outcome(twice)).toContain('signature_mismatch');
  });

  it('cannot give their values to one another', async () => {
    const names = [...NAMES, 'x-a', 'x-b'];
    const headers = signed({ ...TIME, 'x-a': '1', 'x-b': '2;x-b:3' }, names);
    const moved = { ...headers, 'x-a': '1;x-b:2', 'x-b': '3' };
    for (const each of [headers, moved]) expect(await outcome(each)).toContain('what could be the next one');
  });
});

describe('a signature of Keygen’s', () => {
  const { publicKey, privateKey } = ed25519Pair(9);
  const seed = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.from(privateKey, 'hex')]);
  const key = createPrivateKey({ key: seed, format: 'der', type: 'pkcs8' });
  const DATE = new Date(NOW).toUTCString();
  const digest = createHash('sha256').update(BODY).digest('base64');
  const text = `(request-target): post /flows/api/webhook/in\nhost: hooks.example.com\ndate: ${DATE}\ndigest: sha-256=${digest}`;
  const base64 = sign(null, Buffer.from(text), key).toString('base64');
  const line = (others: Record<string, string> = {}) =>
    Object.entries({
      keyid: 'account',
      algorithm: 'ed25519',
      signature: base64,
      headers: '(request-target) host date digest',
      ...others,
    })
      .map(([name, value]) => `${name}="${value}"`)
      .join(', ');
  const outcome = async (signature: string, date = DATE, body = BODY, webhookPublicUrl = URL_CALLED) => {
    const headers = { 'keygen-signature': signature, date };
    const inputs = { webhookSignatureScheme: 'Keygen', webhookPublicUrl };
    const verdict = await judge(
      { inputs, key: publicKey },
      deliveryOf({ headers, body, path: '/flows/api/webhook/in' }),
    );
    return verdict.passed ? 'passed' : verdict.reason;
  };

  it.each<[string, Promise<string>, string]>([
    ['passes', outcome(line()), 'passed'],
    ['passes with a port of ours', outcome(line(), DATE, BODY, URL_CALLED.replace('.com', '.com:8443')), 'passed'],
    ['is over the body, whatever a digest says', outcome(line(), DATE, `${BODY} `), 'signature_mismatch'],
    ['is over host', outcome(line(), DATE, BODY, URL_CALLED.replace('hooks', 'other')), 'signature_mismatch'],
    ['is over the path', outcome(line(), DATE, BODY, `${URL_CALLED}2`), 'signature_mismatch'],
    ['is over the query', outcome(line(), DATE, BODY, `${URL_CALLED}?a=1`), 'signature_mismatch'],
    ['is over the time', outcome(line(), new Date(NOW + 1000).toUTCString()), 'signature_mismatch'],
    ['has no other spelling of the time', outcome(line(), new Date(NOW).toISOString()), 'signature_mismatch'],
    ['is there once', outcome(`${line()}, ${line()}`), 'signature_malformed'],
    [
      'comes without a second one',
      outcome(line({ Signature: base64 }).replace('Signature', 'signature')),
      'signature_malformed',
    ],
    ['has one name', outcome(line().replace('signature=', 'sign=')), 'signature_malformed'],
    ['ends with its quotation mark', outcome(`signature="${base64}`), 'signature_malformed'],
    ['is of its kind, whatever it says', outcome(line({ algorithm: 'hmac-sha256' })), 'passed'],
    [
      'is no HMAC with the public key',
      outcome(line({ signature: createHmac('sha256', publicKey).update(text).digest('base64') })),
      'signature_malformed',
    ],
  ])('%s', async (_rule, found, expected) => {
    expect(await found).toBe(expected);
  });

  it('is that of a response which Keygen published, but for the method', () => {
    const file = new URL('keygen-response.json', import.meta.url);
    const { publicKey: theirs, url, headers, body } = JSON.parse(readFileSync(file, 'utf8'));
    const spec = builtIn('Keygen');
    const signs = spec.signs.map((part) => (typeof part === 'string' ? part.replace(': post ', ': get ') : part));
    const keys = { current: readVerificationKey(spec, theirs, 'key'), previous: undefined };
    const verified = (sent: string) =>
      verifyWithSpec({ ...spec, signs }, keys, { delivery: deliveryOf({ headers, body: sent }), publicUrl: url });
    expect(verified(body)).toMatchObject({ isVerified: true });
    expect(verified(`${body} `)).toMatchObject({ isVerified: false });
  });
});
