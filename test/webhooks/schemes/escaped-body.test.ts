import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { deliveryOf, judge, NOW } from './fixtures.ts';

const TIME = new Date(NOW).toISOString();

/** The verdict of Box's gate on a body with the signature of another text. */
async function judgeBox(body: string | Buffer, signed: string) {
  const signature = createHmac('sha256', 'key').update(signed).update(TIME).digest('base64');
  const headers = { 'Box-Signature-Primary': signature, 'Box-Delivery-Timestamp': TIME };
  return judge({ inputs: { webhookSignatureScheme: 'Box' }, key: 'key' }, deliveryOf({ body, headers }));
}

const escaped = (json: string) =>
  json
    .replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .replaceAll('/', '\\/');

const texts = fc.string({ unit: fc.constantFrom('a', '/', '\\', '"', 'é', 'ス', '😀', '\u007f', '\n', 'u00e9') });

it('verifies JSON as Box signs it and as it may be written anew, with one nonce', async () => {
  await fc.assert(
    fc.asyncProperty(texts, async (name) => {
      const json = JSON.stringify({ name });
      const [sent, rewritten] = await Promise.all([
        judgeBox(escaped(json), escaped(json)),
        judgeBox(json, escaped(json)),
      ]);
      expect([sent.passed, rewritten.passed]).toEqual([true, true]);
      expect(rewritten.evidence?.signedBytesSha256).toBe(sent.evidence?.signedBytesSha256);
      expect(sent.evidence?.signedBytesSha256).toMatch(/^[0-9a-f]{64}$/);
    }),
  );
});

it('verifies no body that says something else than what was signed', async () => {
  const pieces = fc.constantFrom(
    'a',
    '/',
    '\\',
    '\\/',
    '\\\\',
    '\\"',
    'é',
    '\\u00e9',
    'u00e9',
    '\\u002f',
    '�',
    '\\ufffd',
  );
  const raw = fc.array(pieces, { maxLength: 5 }).map((parts) => `{"name":"${parts.join('')}"}`);
  let seen = 0;
  await fc.assert(
    fc.asyncProperty(raw, raw, async (body, other) => {
      for (const signed of [other, escaped(body)]) {
        if (!(await judgeBox(body, signed)).passed || body === signed) continue;
        seen += 1;
        expect(JSON.parse(body)).toEqual(JSON.parse(signed));
      }
    }),
    { numRuns: 2000 },
  );
  expect(seen).toBeGreaterThan(100);
});

it.each([
  ['is not UTF-8', Buffer.from('{"a":"\xff"}', 'latin1'), '{"a":"\\ufffd"}'],
  ['is not JSON', '{"a":"\\é"}', '{"a":"\\\\u00e9"}'],
  ['is a form', 'a=é', 'a=\\u00e9'],
])('takes no body in another spelling that %s', async (_what, body, signed) => {
  expect(await judgeBox(body, signed)).toMatchObject({ passed: false, reason: 'signature_mismatch' });
});
