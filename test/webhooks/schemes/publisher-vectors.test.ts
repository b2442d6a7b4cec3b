import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Verdict } from '../../../src/webhooks/gate.ts';
import { BUILT_IN_SCHEMES } from '../../../src/webhooks/schemes/index.ts';
import { deliveryOf, judge } from './fixtures.ts';

interface Vector {
  readonly scheme: string;
  readonly name: string;
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly bodyUtf8?: string;
  readonly bodyBase64?: string;
  readonly key: string;
  readonly keyPrevious?: string;
  readonly url?: string;
  /** Seconds. */
  readonly now?: number;
  readonly toleranceSeconds?: number;
  readonly valid: boolean;
  /** The verdict without the rule of freshness, where it differs. */
  readonly signatureValid?: boolean;
  readonly usedPreviousKey?: boolean;
}

const vectors: Vector[] = JSON.parse(
  readFileSync(new URL('../../vectors/publisher-vectors.json', import.meta.url), 'utf8'),
);

/** Refused by the publishers' text comparison, accepted here: hex is the same bytes in either case. */
const ACCEPTED_IN_UPPER_CASE = [
  'GitHub/upper-case-hex',
  'Stripe/upper-case-hex',
  'Linear/upper-case-hex',
  'Dropbox/upper-case-hex',
];

function isValid(vector: Vector): boolean {
  return vector.valid || ACCEPTED_IN_UPPER_CASE.includes(`${vector.scheme}/${vector.name}`);
}

function judgeVector(vector: Vector): Promise<Verdict> {
  const body =
    vector.bodyBase64 === undefined ? Buffer.from(vector.bodyUtf8 ?? '') : Buffer.from(vector.bodyBase64, 'base64');
  return judge(
    {
      inputs: { webhookSignatureScheme: vector.scheme, webhookPublicUrl: vector.url },
      key: vector.key,
      previousKey: vector.keyPrevious,
    },
    deliveryOf({ method: vector.method, headers: vector.headers, body }),
  );
}

function isFresh(verdict: Verdict, { now, toleranceSeconds }: Vector): boolean {
  const timestamp = verdict.evidence?.signedTimestamp;
  if (now === undefined || toleranceSeconds === undefined || timestamp === undefined) return true;
  return Math.abs(now * 1000 - timestamp.ms) <= toleranceSeconds * 1000;
}

describe.each(BUILT_IN_SCHEMES.filter(({ name }) => name !== 'Generic'))('$name', ({ name }) => {
  const own = vectors.filter(({ scheme }) => scheme === name);

  it.each(own)('gives the verdict of the known answer "$name"', async (vector) => {
    const verdict = await judgeVector(vector);
    expect(verdict.passed && isFresh(verdict, vector)).toBe(isValid(vector));
    expect(verdict.evidence).toMatchObject({ scheme: vector.scheme, isVerified: verdict.passed });
    if (verdict.passed) expect(verdict.evidence?.usedPreviousKey).toBe(vector.usedPreviousKey ?? false);
  });

  it('is covered by known answers of both kinds', () => {
    expect(new Set(own.map(({ valid }) => valid))).toEqual(new Set([true, false]));
  });
});

it.each(vectors.filter(({ signatureValid }) => signatureValid !== undefined))(
  'refuses $scheme "$name", if at all, for something else than its digest',
  async (vector) => {
    const verdict = await judgeVector(vector);
    expect(verdict.passed || verdict.reason !== 'signature_mismatch').toBe(vector.signatureValid);
  },
);

it('knows every scheme that has known answers, and Svix as another name of one', async () => {
  const names = new Set(BUILT_IN_SCHEMES.map(({ name }) => name));
  expect(vectors.filter(({ scheme }) => !names.has(scheme))).toEqual([]);
  const vector = vectors.find(({ name }) => name === 'svix-header-names');
  expect(vector).toBeDefined();
  if (vector !== undefined) expect((await judgeVector({ ...vector, scheme: 'svix' })).passed).toBe(true);
});
