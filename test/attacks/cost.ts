import { expect } from 'vitest';
import type { Attack } from './attack.ts';
import { type Delivery, github, type Slug, type Target, TOKENS } from './target.ts';

/** Of a processor: several times what the judgement of any body may take, and a part of what each attack took. */
const MOST_SECONDS = 2;

async function costs(target: Target, work: () => Promise<void>): Promise<void> {
  const before = await target.cpuSeconds();
  await work();
  expect((await target.cpuSeconds()) - before).toBeLessThan(MOST_SECONDS);
}

const text = (value: unknown) => JSON.stringify(value);
const BODIES: readonly (readonly [what: string, slug: Slug, body: string])[] = [
  ['a pattern that backtracks', 'pattern', text({ text: `${'a'.repeat(500_000)}!` })],
  [
    'uniqueItems over many objects',
    'unique',
    text({ list: Array.from({ length: 20_000 }, (_, n) => ({ n: [n] })).concat({ n: [7] }) }),
  ],
  ['a schema that refers to itself twice', 'recursive', `${'['.repeat(60)}"x"${']'.repeat(60)}`],
];

export const COST: readonly Attack[] = [
  ...BODIES.map(
    ([what, slug, body]): Attack => ({
      rule: 'a schema has a budget of steps',
      attack: `sends a signed body that is expensive for ${what}`,
      async run(target) {
        await costs(target, async () => {
          expect(await target.send(slug, github(body))).toMatchObject({ status: 422, reason: 'body_schema' });
        });
      },
    }),
  ),
  {
    rule: 'no expensive gate runs after one that objected, in any mode',
    attack: 'sends an unsigned body that is expensive for the schema, under Off',
    async run(target) {
      const forged: Delivery = github(text({ text: `${'a'.repeat(500_000)}!` }), {}, 'a wrong key');
      await costs(target, async () => {
        expect(await target.send('lenient', forged)).toMatchObject({ status: 200 });
      });
      const recent = await target.ask('webhooks/recent?take=1&includeTotal=true', { by: 'reader' });
      const [{ id } = { id: '' }] = recent.body.items as { id: string }[];
      const { body } = await target.ask(`webhooks/${id}`, { by: 'reader' });
      const results = body.gateResults as { gate: string; outcome: string }[];
      expect(results.filter(({ outcome }) => outcome === 'not evaluated').length).toBeGreaterThan(0);
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
];
