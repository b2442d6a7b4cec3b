import { expect } from 'vitest';
import type { Attack } from './attack.ts';
import { type Delivery, github, idOf, type Slug, type Target, TOKENS } from './target.ts';

interface Recorded {
  readonly id: string;
  readonly detail: string | null;
}

/** The newest delivery's record. */
async function newest(target: Target): Promise<Recorded> {
  const { body } = await target.ask('webhooks/recent?take=1&includeTotal=true', { by: 'reader' });
  const [record] = body.items as Recorded[];
  if (record === undefined) throw new Error('no delivery is recorded');
  return record;
}

const text = (value: unknown) => JSON.stringify(value);
/** What each body makes expensive, and its record's detail. `npm run bench:hostile` measures the processor time. */
export const BODIES: readonly (readonly [what: string, slug: Slug, body: string, detail: string])[] = [
  ['a pattern that backtracks', 'pattern', text({ text: `${'a'.repeat(500_000)}!` }), 'must match pattern'],
  [
    'uniqueItems over many objects',
    'unique',
    text({ list: Array.from({ length: 20_000 }, (_, n) => ({ n: [n] })).concat({ n: [7] }) }),
    'must NOT have duplicate items',
  ],
  ['a schema that refers to itself twice', 'recursive', `${'['.repeat(60)}"x"${']'.repeat(60)}`, 'too expensive'],
];

export const COST: readonly Attack[] = [
  ...BODIES.map(
    ([what, slug, body, detail]): Attack => ({
      rule: 'a schema has a budget of steps',
      attack: `sends a signed body that is expensive for ${what}`,
      async run(target) {
        expect(await target.send(slug, github(body))).toMatchObject({ status: 422, reason: 'body_schema' });
        expect((await newest(target)).detail).toContain(detail);
      },
    }),
  ),
  {
    rule: 'no expensive gate runs after one that objected, in any mode',
    attack: 'sends an unsigned body that is expensive for the schema, under Off',
    async run(target) {
      const forged: Delivery = github(text({ text: `${'a'.repeat(500_000)}!` }), {}, 'a wrong key');
      expect(await target.send('lenient', forged)).toMatchObject({ status: 200 });
      const { id } = await newest(target);
      const { body } = await target.ask(`webhooks/${id}`, { by: 'reader' });
      const results = body.gateResults as { gate: string; outcome: string }[];
      expect(results.filter(({ outcome }) => outcome === 'not evaluated').length).toBeGreaterThan(0);
    },
  },
  {
    rule: 'what a deploy brings costs linear time',
    attack: 'deploys a schema of a short pattern that stands for many states, a thousand times',
    async run(target) {
      const properties = Object.fromEntries(
        Array.from({ length: 1000 }, (_, n) => [`p${n}`, { pattern: `(a{1,30}){1,30}b${n}` }]),
      );
      const { status, body } = await target.deploy('unique', { webhookBodySchema: { properties } });
      expect([status, text(body)]).toEqual([400, expect.stringContaining('states together')]);
    },
  },
  {
    rule: 'what a deploy brings costs linear time',
    attack: 'deploys a chain of 3 000 steps, and asks which paths it reads',
    async run(target) {
      const steps = Object.fromEntries(
        Array.from({ length: 3000 }, (_, n) => [
          `s${n}`,
          { type: 'NoOp', ...(n > 0 && { runAfter: { [`s${n - 1}`]: ['Succeeded'] } }) },
        ]),
      );
      const deployed = await target.deploy('unique', {}, { allow: 'access,caution,breaking', others: { steps } });
      expect(deployed).toMatchObject({ status: 200 });
      expect(await target.ask(`flows/${idOf('unique')}/paths`, { by: 'reader' })).toMatchObject({ status: 200 });
    },
  },
  {
    rule: 'streams of events are bounded over all readers',
    attack: 'opens streams until there are no more, and reads none',
    async run(target) {
      const stop = new AbortController();
      const open = () =>
        fetch(`${target.service().url}/flows/api/events/stream`, {
          headers: { authorization: `Bearer ${TOKENS.reader}` },
          signal: stop.signal,
        });
      const streams = await Promise.all(Array.from({ length: 200 }, open));
      expect(new Set(streams.map(({ status }) => status))).toEqual(new Set([200]));
      const refused = await open();
      expect(refused.status).toBe(503);
      expect(await refused.json()).toMatchObject({ reason: 'too_many_streams' });
      expect(await target.send('push', github())).toMatchObject({ status: 200 });
      stop.abort();
    },
  },
  {
    rule: 'streams of events are shared among credentials',
    attack: 'opens all streams there are with one token, and another reads',
    async run(target) {
      const stop = new AbortController();
      const open = (token: string) =>
        fetch(`${target.service().url}/flows/api/events/stream`, {
          headers: { authorization: `Bearer ${token}` },
          signal: stop.signal,
        });
      await Promise.all(Array.from({ length: 200 }, () => open(TOKENS.reader)));
      expect((await open(TOKENS.operator)).status).toBe(200);
      expect((await open(TOKENS.reader)).status).toBe(503);
      stop.abort();
    },
  },
];
