import fc from 'fast-check';
import { describe, expect } from 'vitest';
import type { AcceptResult, Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { aNonce, aRun, deployOf, graphOf, id, PLAN, T0 } from '../samples.ts';

/** Flows that are deployed together: the slug of each of their triggers, '' for none. */
type Deploy = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Deploys flows and delivers to slugs and, as `id NAME`, to the ids of flows, as a service with one store does. */
export class Deliveries {
  #store: Store;
  readonly #prefix: string;
  readonly #revisions = new Map<string, number>();
  readonly #routes = new Map<string, { flowId: string; triggerKey: string }>();
  #runs: number;

  constructor(store: Store, group = 0) {
    this.#store = store;
    this.#prefix = `${group} `;
    this.#runs = group * 1000;
  }

  async deploy(flows: Deploy): Promise<void> {
    const planned = Object.entries(flows).map(([name, slugs]) => {
      const flowId = `${this.#prefix}${name}`;
      const revision = this.#revisions.get(flowId) ?? 0;
      const given = Object.entries(slugs).map(([key, slug]) => {
        const webhookSlug = slug === '' ? {} : { webhookSlug: `${this.#prefix}${slug}` };
        return [key, { type: 'webhook', inputs: webhookSlug }] as const;
      });
      const triggers = Object.fromEntries(given);
      const snapshot = { id: flowId, steps: graphOf({ [`step${revision}`]: [] }), triggers };
      return {
        ...deployOf(graphOf({}), { id: flowId, snapshot: JSON.parse(JSON.stringify(snapshot)) }),
        ...PLAN,
        hash: `${revision + 1}`,
        basedOn: revision === 0 ? null : revision,
        triggers: { keys: Object.keys(slugs), moved: [] },
      };
    });
    expect(await this.#store.applyDeploys(planned)).toMatchObject({ kind: 'applied' });
    for (const [slug, { flowId }] of this.#routes) {
      if (planned.some((each) => each.id === flowId)) this.#routes.delete(slug);
    }
    for (const { id: flowId, hash } of planned) this.#revisions.set(flowId, Number(hash));
    for (const [name, slugs] of Object.entries(flows)) {
      for (const [place, [triggerKey, slug]] of Object.entries(slugs).entries()) {
        if (place === 0) this.#routes.set(`id ${name}`, { flowId: `${this.#prefix}${name}`, triggerKey });
        if (slug !== '') this.#routes.set(slug, { flowId: `${this.#prefix}${name}`, triggerKey });
      }
    }
  }

  /** Continues with the same database. */
  restarted(store: Store): void {
    this.#store = store;
  }

  /** Names that lead to triggers. */
  get names(): readonly string[] {
    return [...this.#routes.keys()];
  }

  async accept(slug: string, value: string): Promise<AcceptResult['kind']> {
    return (await this.#accept(slug, { nonce: aNonce({ value, digest: value }) })).kind;
  }

  async acceptKey(slug: string, idempotencyKey: string): Promise<AcceptResult['kind']> {
    return (await this.#accept(slug, { idempotencyKey })).kind;
  }

  #accept(slug: string, names: Pick<Parameters<Store['accept']>[0], 'nonce' | 'idempotencyKey'>) {
    const to = this.#routes.get(slug);
    if (to === undefined) throw new Error(`nothing has ${slug}`);
    this.#runs += 1;
    const revision = this.#revisions.get(to.flowId) ?? 0;
    return this.#store.accept({ run: aRun({ id: id(this.#runs), ...to, revision, startedAt: T0 - 1 }), ...names });
  }
}

export function routes({ test }: StoreUnderTest): void {
  describe('what was accepted at a slug or the id of a flow', () => {
    test.each<[string, readonly Deploy[], string?]>([
      ['another flow takes it in the same deploy', [{ a: { k: 's' } }, { a: { k: '' }, b: { k: 's' } }]],
      ['and before the one that gives it up', [{ a: { k: 's' } }, { b: { k: 's' }, a: { k: '' } }]],
      ['its trigger takes another slug', [{ a: { k: 's' } }, { a: { k: 't' }, b: { k: 's' } }]],
      ['another flow takes it later', [{ a: { k: 's' } }, { a: {} }, { b: { k: 's' } }]],
      ['another flow replaces its flow', [{ a: { k: 's' } }, { b: { x: 's' } }]],
      [
        'two flows change slugs',
        [
          { a: { k: 's' }, b: { k: 't' } },
          { a: { k: 't' }, b: { k: 's' } },
        ],
      ],
      ['it goes from flow to flow', [{ a: { k: 's' } }, { b: { k: 's' } }, { b: { k: '' }, c: { k: 's' } }]],
      ['it comes back', [{ a: { k: 's' } }, { a: { k: '' }, b: { k: 's' } }, { b: { k: '' }, a: { k: 's' } }]],
      [
        'it comes back later',
        [{ a: { k: 's' } }, { a: { k: '' } }, { b: { k: 's' } }, { b: { k: '' } }, { a: { k: 's' } }],
      ],
      ['another trigger of its flow takes it later', [{ a: { k: 's' } }, { a: { k: '' } }, { a: { k: '', l: 's' } }]],
      ['its flow has no webhook trigger for a while', [{ a: { k: '' } }, { a: {} }, { a: { l: '' } }], 'id a'],
      ['others are put before its trigger', [{ a: { k: 's' } }, { a: { l: 't', k: 's' } }, { a: { k: 's' } }], 'id a'],
      [
        'its flow changes its first trigger, and has none for a while',
        [{ a: { k: 's', l: 't' } }, { a: { l: 't' } }, { b: { k: 's' } }, { a: {} }, { a: { m: '', l: 't' } }],
        'id a',
      ],
    ])('stays known there where %s', async (store, _rule, deploys, name = 's') => {
      const deliveries = new Deliveries(store);
      const sent: string[] = [];
      for (const [n, deploy] of deploys.entries()) {
        await deliveries.deploy(deploy);
        if (!deliveries.names.includes(name)) continue;
        for (const one of sent) {
          expect([n, one, await deliveries.accept(name, one)]).toEqual([n, one, 'replayed']);
          expect([n, one, await deliveries.acceptKey(name, one)]).toEqual([n, one, 'duplicate']);
        }
        expect([await deliveries.accept(name, `${n}`), await deliveries.acceptKey(name, `${n}`)]).toEqual([
          ...['accepted', 'accepted'],
        ]);
        sent.push(`${n}`);
      }
    });

    test('is told with the last revision that gave the name to a trigger, which retention keeps', async (store) => {
      const deliveries = new Deliveries(store);
      for (const slug of ['S', 's', '', '']) await deliveries.deploy({ a: { k: slug } });
      for (const none of [{}, {}]) await deliveries.deploy({ a: none });
      await deliveries.deploy({ b: { l: 't' } });
      expect(await store.listRoutes(['0 a', '0 c', '0 s', '0 t', '0 u'])).toEqual([
        { slug: '0 a', flowId: '0 a', triggerKey: 'k', revision: 4 },
        { slug: '0 s', flowId: '0 a', triggerKey: 'k', revision: 2 },
        { slug: '0 t', flowId: '0 b', triggerKey: 'l', revision: 1 },
      ]);
      await store.purgeRevisions({ kept: 1, after: { flowId: '', revision: 0 }, limit: 100 });
      const isKept = async (revision: number) => (await store.findRevision('0 a', revision))?.snapshot !== undefined;
      expect(await Promise.all([1, 2, 3, 4, 5, 6].map(isKept))).toEqual([false, true, false, true, false, true]);
    });

    test('is not joined by what its former trigger accepts elsewhere from then on', async (store) => {
      const deliveries = new Deliveries(store);
      await deliveries.deploy({ a: { k: 's' } });
      await deliveries.accept('s', 'before');
      await deliveries.deploy({ a: { k: 't' }, b: { k: 's' } });
      expect(await deliveries.accept('t', 'after')).toBe('accepted');
      expect(await deliveries.accept('s', 'after')).toBe('accepted');
      expect(await deliveries.accept('s', 'before')).toBe('replayed');
    });

    test('stays known there whatever deploys move it', async (store) => {
      const slugOf = fc.constantFrom('', '', 's', 't');
      const flow = fc.record({ k: slugOf, l: slugOf }, { requiredKeys: [] });
      const deploys = fc.array(fc.record({ a: flow, b: flow, c: flow }, { requiredKeys: [] }), { maxLength: 8 });
      let group = 0;
      await fc.assert(
        fc.asyncProperty(deploys, async (given) => {
          group += 1;
          const deliveries = new Deliveries(store, group);
          const accepted: [name: string, value: string][] = [];
          for (const [n, deploy] of given.entries()) {
            const all = Object.values(deploy).flatMap((slugs) => Object.values(slugs).filter((slug) => slug !== ''));
            if (new Set(all).size < all.length || Object.keys(deploy).length === 0) continue;
            await deliveries.deploy(deploy);
            for (const [name, value] of accepted) {
              if (!deliveries.names.includes(name)) continue;
              expect([n, name, await deliveries.accept(name, value)]).toEqual([n, name, 'replayed']);
            }
            for (const name of deliveries.names) {
              const value = `${name} ${n}`;
              expect([n, name, await deliveries.accept(name, value)]).toEqual([n, name, 'accepted']);
              accepted.push([name, value]);
            }
          }
        }),
        { numRuns: 40 },
      );
    });
  });
}
