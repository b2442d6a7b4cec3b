import { describe, expect, it } from 'vitest';
import type { Verdict } from '../../../src/webhooks/gate.ts';
import { type Certificates, createCertificates } from '../../../src/webhooks/schemes/certificates.ts';
import { BUILT_IN_SCHEMES } from '../../../src/webhooks/schemes/publishers/index.ts';
import { certificateAt } from '../../publishers/certificates.ts';
import { bodyOf, isAccepted, PUBLISHED_SCHEMES, VECTORS, type Vector } from '../../publishers/vectors.ts';
import { deliveryOf, judge, NOW, settingsOf } from './fixtures.ts';

// By time, because certificates expire.
const certificatesAt = new Map<number, Certificates>();

function judgeVector(vector: Vector): Promise<Verdict> {
  const { scheme, url, sandbox, now = NOW / 1000 } = vector;
  const clock = { now: () => now * 1000, monotonic: () => 0 };
  const certificates = certificatesAt.get(now) ?? createCertificates({ fetch: certificateAt, clock });
  certificatesAt.set(now, certificates);
  return judge(
    {
      inputs: { webhookSignatureScheme: scheme, webhookPublicUrl: url, webhookSandbox: sandbox },
      key: vector.key,
      previousKey: vector.keyPrevious,
      settings: settingsOf({}, { certificates }),
    },
    deliveryOf({ method: vector.method, headers: vector.headers, body: bodyOf(vector) }),
  );
}

function isFresh(verdict: Verdict, { now, toleranceSeconds }: Vector): boolean {
  const timestamp = verdict.evidence?.signedTimestamp;
  if (now === undefined || toleranceSeconds === undefined || timestamp === undefined) return true;
  return Math.abs(now * 1000 - timestamp.ms) <= toleranceSeconds * 1000;
}

describe.each(PUBLISHED_SCHEMES)('$name', ({ name, certainty }) => {
  const own = VECTORS.filter(({ scheme }) => scheme === name);

  it.each(own)('gives the verdict of the known answer "$name"', async (vector) => {
    const verdict = await judgeVector(vector);
    expect(verdict.passed && isFresh(verdict, vector)).toBe(isAccepted(vector));
    expect(verdict.evidence).toMatchObject({ scheme: vector.scheme, isVerified: verdict.passed });
    if (verdict.passed) expect(verdict.evidence?.usedPreviousKey).toBe(vector.usedPreviousKey ?? false);
  });

  // A second implementation signs for schemes that are only documented: see test/publishers/rows.test.ts.
  it('is covered by known answers of both kinds, or says that there are none', () => {
    if (own.length === 0) return expect(certainty).toMatch(/^(documented|unconfirmed)$/);
    return expect(new Set(own.map(({ valid }) => valid))).toEqual(new Set([true, false]));
  });
});

it.each(VECTORS.filter(({ signatureValid }) => signatureValid !== undefined))(
  'refuses $scheme "$name", if at all, for something else than its digest',
  async (vector) => {
    const verdict = await judgeVector(vector);
    expect(verdict.passed || verdict.reason !== 'signature_mismatch').toBe(vector.signatureValid);
  },
);

it('knows every scheme that has known answers, and Svix as another name of one', async () => {
  const names = new Set(BUILT_IN_SCHEMES.map(({ name }) => name));
  expect(VECTORS.filter(({ scheme }) => !names.has(scheme))).toEqual([]);
  const vector = VECTORS.find(({ name }) => name === 'svix-header-names');
  expect(vector).toBeDefined();
  if (vector !== undefined) expect((await judgeVector({ ...vector, scheme: 'svix' })).passed).toBe(true);
});
