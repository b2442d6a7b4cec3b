import { describe, expect, it } from 'vitest';
import { vectorsOf } from '../../src/features/vectors/command.ts';
import { BUILT_IN_SCHEMES } from '../../src/webhooks/schemes/publishers/index.ts';
import { deliveryOf, judge } from '../webhooks/schemes/fixtures.ts';

const kit = BUILT_IN_SCHEMES.map((spec) => ({ name: spec.name, spec, vectors: vectorsOf(spec) }));

describe.each(kit.filter(({ vectors }) => vectors.length > 0))(
  'the known requests of $name',
  ({ name, spec, vectors }) => {
    it('are of both kinds, and have names of their own', () => {
      expect(new Set(vectors.map(({ valid }) => valid))).toEqual(new Set([true, false]));
      expect(new Set(vectors.map((vector) => vector.name)).size).toBe(vectors.length);
      if (spec.timestamp !== undefined) expect(vectors.map((vector) => vector.name)).toContain('too-old');
    });

    it.each(vectors)(
      'have the verdict of "$name"',
      async ({ url, headers, bodyUtf8, key, now, toleranceSeconds, valid }) => {
        const { pathname, search } = new URL(url);
        const sent = deliveryOf({ headers, body: bodyUtf8, path: `${pathname}${search}`, requestUrl: url });
        const verdict = await judge({ inputs: { webhookSignatureScheme: name, webhookHmacKey: key }, key }, sent);
        const at = verdict.evidence?.signedTimestamp?.ms;
        const isFresh = at === undefined || Math.abs(at - now * 1000) <= toleranceSeconds * 1000;
        expect(verdict.passed && isFresh).toBe(valid);
      },
    );
  },
);

it('leaves out only those whose publisher has the private key of a certificate', () => {
  expect(kit.filter(({ vectors }) => vectors.length === 0).map(({ name }) => name)).toEqual(
    BUILT_IN_SCHEMES.filter(({ certificate }) => certificate !== undefined).map(({ name }) => name),
  );
});
