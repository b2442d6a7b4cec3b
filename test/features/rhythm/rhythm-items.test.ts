import { expect, it } from 'vitest';
import { rhythmItems } from '../../../src/features/rhythm/service.ts';
import { NOW, ORDERS_ID } from '../../dashboard/fixture.ts';

const HOUR = 3_600_000;
type Found = Parameters<typeof rhythmItems>[0][number]['found'];
type Situation = Parameters<typeof rhythmItems>[1];

const silence = { kind: 'trigger_silent', lastAt: NOW - 3 * HOUR, from: NOW - 3 * HOUR, everyMs: null, event: null };
const began = { kind: 'refusals_began', since: NOW - HOUR, count: 3, reason: 'signature_mismatch' };

function itemsOf(found: readonly object[], { mode = 'Enforce', inputs = {} } = {}) {
  const own = { flowId: ORDERS_ID, triggerKey: 'shop' };
  const trigger = { ...own, flowName: 'orders', inputs };
  const triggers = [{ trigger, mode }] as unknown as Situation['triggers'];
  return rhythmItems([{ ...own, found: found as Found }], { triggers, now: NOW });
}
const messagesOf = (...given: Parameters<typeof itemsOf>) => itemsOf(...given).map(({ message }) => message);

it('tells a silence once for each trigger, with the kinds of events that are missing', () => {
  expect(messagesOf([silence])).toEqual([
    expect.stringMatching(
      /^orders\/shop has had no delivery for 3 h \(the last came at .*Z\): it was never silent for so long/,
    ),
  ]);
  const events = ['a', 'b', 'c', 'd', 'e'].map((event) => ({ ...silence, event }));
  expect(messagesOf(events)).toEqual([
    expect.stringMatching(/no delivery of the event "a" for 3 h .*; nor any of "b", "c", "d" and 1 more\. Check/),
  ]);
});

it('tells what the manifest expects, and that nothing ever came', () => {
  const expected = { ...silence, lastAt: null, everyMs: 2 * HOUR };
  expect(messagesOf([expected], { inputs: { webhookExpectEvery: 'PT2H' } })).toEqual([
    expect.stringContaining('no delivery for 3 h (none ever came): its manifest expects one at least every PT2H.'),
  ]);
});

it('writes the name of an event, which a sender chose, in quotes and in short', () => {
  const [message = ''] = messagesOf([{ ...silence, event: `x"\n${'y'.repeat(500)}` }]);
  expect(message).toContain(String.raw`"x\"\nyyy`);
  expect(message.length).toBeLessThan(400);
});

it('calls refusals under a chosen mode a note', () => {
  expect(itemsOf([began])[0]).toMatchObject({
    kind: 'refusals_began',
    message: expect.stringContaining('were refused'),
  });
  expect(itemsOf([began])[0]).not.toHaveProperty('severity');
  expect(itemsOf([began], { mode: 'Audit' })).toMatchObject([
    { severity: 'info', message: expect.stringContaining('were accepted, because its mode is Audit') },
  ]);
});

it('tells since when deliveries are refused by the first of them, or by its hour', () => {
  expect(messagesOf([began])).toEqual([expect.stringContaining(' were refused (from 2026-')]);
  expect(messagesOf([{ ...began, firstAt: began.since + 1_998_000 }])).toEqual([
    expect.stringMatching(/ were refused \(since 2026-\d\d-\d\dT\d\d:33:18Z; none in the 7 days before\)/),
  ]);
});

it('tells a volume with what is usual', () => {
  const broken = { kind: 'volume_broken', from: NOW - 3 * HOUR, to: NOW, count: 12, usual: 1400 };
  expect(messagesOf([broken])).toEqual([
    expect.stringMatching(/^orders\/shop had 12 deliveries from .* to .*; about 1400 are usual then$/),
  ]);
});

it('says nothing of a trigger that is no longer there', () => {
  const rhythms = [{ flowId: ORDERS_ID, triggerKey: 'gone', found: [silence] as unknown as Found }];
  expect(rhythmItems(rhythms, { triggers: [], now: NOW })).toEqual([]);
});
