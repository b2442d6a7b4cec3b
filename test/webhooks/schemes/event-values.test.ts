import { describe, expect, it } from 'vitest';
import { ArrivingBody } from '../../../src/expressions/trigger-body.ts';
import { describeSchemes } from '../../../src/features/schemes/descriptions.ts';
import { prepareKeys } from '../../../src/webhooks/reading.ts';
import { BUILT_IN_SCHEMES } from '../../../src/webhooks/schemes/publishers/index.ts';
import { createSchemeRegistry } from '../../../src/webhooks/schemes/resolve.ts';
import type { PublisherSpec } from '../../../src/webhooks/schemes/spec.ts';
import { sampleTrigger } from '../samples.ts';

const FORMS = BUILT_IN_SCHEMES.flatMap((spec): { name: string; spec: PublisherSpec }[] => [
  { name: spec.name, spec },
  ...(spec.keyForm === undefined ? [] : [{ name: `${spec.name}, by its key`, spec: spec.keyForm.spec }]),
  ...(spec.requestForm === undefined ? [] : [{ name: `${spec.name}, by its request`, spec: spec.requestForm }]),
]);

/** The search keys that the scheme alone gives a delivery with this body. */
function keysIn(spec: PublisherSpec, body: string, contentType = 'application/json'): Record<string, string> {
  const values: Record<string, string> = {};
  const keys = prepareKeys(sampleTrigger({}), { kind: 'spec', spec });
  keys?.readOthers?.({}, new ArrivingBody(Buffer.from(body), { contentType }), values);
  return values;
}

describe.each(FORMS)('the scheme $name', ({ spec }) => {
  it('says where the kind of an event and an id are, or why there is none', () => {
    for (const value of [spec.eventType, spec.eventId]) {
      const said = 'none' in value ? [value.none] : 'path' in value ? value.path : value.headers;
      expect(said.length).toBeGreaterThan(0);
      for (const text of said) expect(text).not.toBe('');
    }
  });

  it('reads no other header for an id than the one that its families name', () => {
    const named = spec.headers.flatMap(({ deliveryId }) => deliveryId ?? []);
    if ('headers' in spec.eventId) expect(spec.eventId.headers).toEqual(named);
    // If a header has an id, a reason for having none would be wrong.
    else if (named.length > 0) expect(spec.eventId).toHaveProperty('path');
  });

  it('finds in its sample what it says to be in the body', () => {
    const { sample, eventType, eventId } = spec;
    if (sample === undefined) return;
    const found = keysIn(spec, sample.body, sample.contentType);
    expect(Object.keys(found).sort()).toEqual([
      ...('path' in eventType ? ['event'] : []),
      ...('path' in eventId ? ['id'] : []),
    ]);
    if ('headers' in eventType) {
      const sent = Object.keys(sample.headers ?? {});
      expect(eventType.headers.some((name) => sent.includes(name.toLowerCase()))).toBe(true);
    }
  });
});

it('finds the kind of an event in either form of a delivery of Adyen', () => {
  const adyen = BUILT_IN_SCHEMES.find(({ name }) => name === 'Adyen');
  if (adyen === undefined) throw new Error('no scheme Adyen');
  expect(keysIn(adyen, adyen.sample?.body ?? '')).toEqual({ event: 'AUTHORISATION', id: '7914073381342284' });
  expect(keysIn(adyen, '{"type":"balancePlatform.transfer.created","data":{"id":"3"}}')).toEqual({
    event: 'balancePlatform.transfer.created',
  });
});

it.each([
  [
    'GitHub',
    { in: 'header', name: 'X-GitHub-Event', why: null },
    { in: 'header', name: 'X-GitHub-Delivery', why: null },
  ],
  ['Slack', { in: 'body', name: 'event.type', why: null }, { in: 'body', name: 'event_id', why: null }],
  ['Line', ...Array(2).fill({ in: 'none', name: null, why: 'a delivery is a list of events, each with its own' })],
  ['Custom', null, null],
])('tells them of %s', (name, eventType, eventId) => {
  const described = describeSchemes(createSchemeRegistry()).find((scheme) => scheme.name === name);
  expect(described).toMatchObject({ eventType, eventId });
});
