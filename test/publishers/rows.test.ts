import { describe, expect, it } from 'vitest';
import type { Verdict } from '../../src/webhooks/gate.ts';
import { replayGate } from '../../src/webhooks/gates/replay.ts';
import { STANDARD_ROWS } from '../../src/webhooks/schemes/publishers/by-standard.ts';
import { PUBLISHERS } from '../../src/webhooks/schemes/publishers/index.ts';
import { retriesOf } from '../../src/webhooks/schemes/publishers/inputs.ts';
import { type PublisherRow, publisherSpec } from '../../src/webhooks/schemes/publishers/row.ts';
import { builtIn, deliveryOf, judge, KEYS, settingsOf, triggerOf } from '../webhooks/schemes/fixtures.ts';
import { type SignedByRow, signByRow } from './second-signer.ts';
import { VECTORS } from './vectors.ts';

function verdictOn({ name }: PublisherRow, { headers, body, url }: SignedByRow): Promise<Verdict> {
  const { pathname, search } = new URL(url);
  const sent = deliveryOf({ headers, body, path: `${pathname}${search}`, requestUrl: url });
  return judge({ inputs: { webhookSignatureScheme: name }, key: KEYS[name] }, sent);
}

/** The verdict on the delivery's age, and its name for it, by a trigger with a tolerance. */
async function replayOf(row: PublisherRow, signed: SignedByRow) {
  const { evidence = {} } = await verdictOn(row, signed);
  const gate = replayGate.prepare(triggerOf({ webhookReplayToleranceSeconds: 300 }), settingsOf());
  return gate?.check(deliveryOf({ headers: signed.headers, body: signed.body }), evidence);
}

const signed = PUBLISHERS.flatMap((row) => {
  const delivery = signByRow(row);
  return delivery === undefined ? [] : [{ name: row.name, row, delivery }];
});

describe.each(signed)('a delivery of $name, signed by another implementation', ({ row, delivery }) => {
  const isToken = row.algorithm === 'token';
  const signsBody = (row.signs ?? '{body}').includes('body}');

  it('is verified', async () => {
    expect(await verdictOn(row, delivery)).toMatchObject({ passed: true });
  });

  it('is refused with another key, another body, another time', async () => {
    const other = signByRow(row, { key: 8 });
    expect(await verdictOn(row, other ?? delivery)).toMatchObject({ passed: false });
    if (signsBody)
      expect(await verdictOn(row, { ...delivery, body: `${delivery.body} ` })).toMatchObject({ passed: false });
    const header = typeof row.timestamp === 'string' ? row.timestamp.toLowerCase() : '';
    if (delivery.headers[header] === undefined) return;
    const later = { ...delivery, headers: { ...delivery.headers, [header]: '1700000001' } };
    expect(await verdictOn(row, later)).toMatchObject({ passed: false });
  });

  it('is too old after the tolerance, where a time is signed, and named by what is signed', async () => {
    const old = signByRow(row, { seconds: 1_699_999_000 });
    const { timestamp } = builtIn(row.name);
    if (timestamp !== undefined) {
      expect(await replayOf(row, old ?? delivery)).toMatchObject({ reason: 'timestamp_skew' });
      expect(await replayOf(row, delivery)).toMatchObject({ passed: true });
    }
    const nonce = async (it: SignedByRow) => (await replayOf(row, it))?.evidence?.nonce?.value;
    expect(await nonce(delivery)).toBe(await nonce(delivery));
    const unsigned = {
      ...delivery,
      headers: { ...delivery.headers, 'x-webhook-timestamp': '1700000002', 'x-other': '1' },
    };
    expect(await nonce(unsigned)).toBe(await nonce(delivery));
  });

  it('is refused with what a second header of the same name would make of it', async () => {
    const [name = ''] = [row.header].flat().map((it) => String(it).toLowerCase());
    const line = delivery.headers[name] ?? '';
    const verdict = await verdictOn(row, {
      ...delivery,
      headers: { ...delivery.headers, [name]: `${line}0, ${line}0` },
    });
    expect(verdict).toMatchObject({ passed: false });
  });

  it('is refused where a character moves from one part to the next', async () => {
    const [first = ''] = delivery.body;
    const header = typeof row.timestamp === 'string' ? row.timestamp.toLowerCase() : '';
    for (const name of [header, row.id?.toLowerCase() ?? '']) {
      const value = delivery.headers[name];
      if (value === undefined) continue;
      const moved = { ...delivery.headers, [name]: `${value}${first}` };
      const verdict = await verdictOn(row, { ...delivery, headers: moved, body: delivery.body.slice(1) });
      if (!isToken && signsBody) expect(verdict).toMatchObject({ passed: false });
    }
  });
});

it('signs all rows whose parts have no options so', () => {
  expect(signed.length).toBeGreaterThan(30);
});

const described = [...PUBLISHERS, ...STANDARD_ROWS].map((row) => ({ name: row.name, row }));

describe.each(described)('what is said of $name', ({ row }) => {
  it('tells of its retries, and where or when that was read', () => {
    const { retries, noRetries, where } = retriesOf(row);
    expect(where).toMatch(/(as of November 2026|, read on 2026-11-\d\d)$/);
    // A misspelt cell would end up in `where`.
    expect(where).not.toMatch(/signed/);
    if (retries === null)
      return expect(noRetries).toMatch(/^(never; |its documentation says nothing|we found no|the sender)/);
    expect(`${retries.when} ${retries.howOften}`).not.toContain('|');
    expect(retries.howOften).toMatch(
      /\d|once|twice|two|three|five|ten|hour|day|(found|names?) no number|until|later|for a time/,
    );
  });

  it('has known answers, or says when none were found', () => {
    const isKnown = VECTORS.some(({ scheme }) => scheme === row.name) || row.certainty === 'vector';
    // Generic has no publisher.
    if (row.name !== 'Generic') expect(isKnown || row.noVector !== undefined).toBe(true);
  });
});

describe.each(PUBLISHERS.map((row) => ({ name: row.name, row })))('the row of $name', ({ row }) => {
  it('says from where it is known', () => {
    expect(row.source).toMatch(/20\d\d-\d\d$/);
    expect(row.unconfirmed !== undefined).toBe(row.certainty === 'unconfirmed');
  });

  it('has known answers of the publisher’s, where it says so', () => {
    if (row.certainty !== 'vector') return;
    expect(VECTORS.filter(({ scheme }) => scheme === row.name)).not.toEqual([]);
  });
});

const OPEN: PublisherRow = {
  name: 'Open',
  header: 'X-Sig',
  eventType: { none: 'none' },
  eventId: { none: 'none' },
  clickPath: [],
  retries: { none: 'the sender decides' },
  source: 'made up, 2026-11',
  certainty: 'documented',
};
const crc = (as: 'hex' | 'base64') =>
  ({
    name: 'crc',
    method: 'GET',
    when: ['{query:crc_token}'],
    answer: { json: { response_token: { hmac: '{query:crc_token}', as } } },
  }) as const;

describe('a handshake that hashes a token with the key', () => {
  it.each(['{body}', '{timestamp}{body}', '{id}{timestamp}{body}', 'v0{body}'])(
    'is refused where deliveries are signed over %s: its answer could be a signature',
    (signs) => {
      expect(() => publisherSpec({ ...OPEN, signs, timestamp: 'X-Ts', id: 'X-Id', handshakes: [crc('hex')] })).toThrow(
        /could be the signature of a delivery/,
      );
    },
  );

  it.each(['v0:{timestamp}:{body}', '{timestamp}.{body}', 'a={body}', '{url}{body}'])(
    'is answered where deliveries are signed over %s',
    (signs) => {
      const row = { ...OPEN, signs, timestamp: 'X-Ts', handshakes: [crc('base64')] };
      expect(publisherSpec(row).handshakes).toHaveLength(1);
    },
  );
});
