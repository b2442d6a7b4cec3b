import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { createServiceClock, type ServiceClock } from '../../../src/model/clock.ts';
import type { Store } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { acceptanceOf, aNonce, T0 } from '../samples.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

export function ledgerTime({ test }: StoreUnderTest): void {
  describe('the time of the nonce ledger', () => {
    test('begins with the first start, and goes on over restarts from the latest that was kept', async (store) => {
      const keep = async (now: number, ledgerAt?: number) => (await store.keepTime({ now, ledgerAt })).ledgerAt;
      const begun = await keep(T0);
      expect(await keep(T0 + DAY)).toBe(begun);
      expect(await keep(T0, begun + 5)).toBe(begun + 5);
      expect(await keep(T0 + 2 * DAY, begun + 3)).toBe(begun + 5);
      expect(await keep(T0 - DAY)).toBe(begun + 5);
    });

    test('no clock that is set, no sleep and no restart has a nonce accepted a second time in its life', async (store) => {
      let stories = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(events, { minLength: 10, maxLength: 30 }), async (story) => {
          stories += 1;
          const world = await World.begin(store, stories);
          for (const event of story) await world.tell(event);
        }),
        { numRuns: 60 },
      );
    }, 60_000);
  });
}

/** A nonce's lifetime here; claims add the replay gate's margin to it. */
const LIFE_MS = 60_000;
const MARGIN_MS = 6000;
/** The time between two beats of a heartbeat. */
const BEAT_MS = 5000;

type Event =
  | { readonly kind: 'deliver'; readonly to: number; readonly nonce: number }
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'set'; readonly whose: number; readonly ms: number }
  | { readonly kind: 'sleep'; readonly ms: number }
  | { readonly kind: 'restart' | 'purge'; readonly which: number };

const which = fc.nat({ max: 1 });
const jump = fc.oneof(
  fc.integer({ min: -4000, max: 4000 }),
  fc.integer({ min: -3 * DAY, max: 3 * DAY }),
  fc.constantFrom(-DAY, DAY, 25 * HOUR, 400 * DAY),
);
const events: fc.Arbitrary<Event> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('deliver' as const), to: which, nonce: fc.nat({ max: 2 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('pass' as const),
      ms: fc.oneof(fc.integer({ min: 0, max: 20_000 }), fc.constantFrom(LIFE_MS - 1, LIFE_MS + 60_000)),
    }),
  },
  // 2 is the database's clock.
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('set' as const), whose: fc.nat({ max: 2 }), ms: jump }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('sleep' as const), ms: fc.nat({ max: 2 * DAY }) }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom('restart' as const, 'purge' as const), which }),
  },
);

/** Two machines and a database, each with a clock that anyone may set. None of them knows the true elapsed time. */
class World {
  readonly #store: Store;
  readonly #name: number;
  /** True elapsed time, without the time that machines sleep. */
  #passed = 0;
  readonly #walls = [T0, T0, T0];
  readonly #processes: ServiceClock[] = [];
  readonly #acceptedAt = new Map<number, number>();
  #deliveries = 0;

  private constructor(store: Store, name: number) {
    this.#store = store;
    this.#name = name;
  }

  static async begin(store: Store, name: number): Promise<World> {
    const world = new World(store, name);
    for (const index of [0, 1]) await world.#start(index);
    return world;
  }

  async tell(event: Event): Promise<void> {
    if (event.kind === 'deliver') await this.#deliver(event.to, event.nonce);
    if (event.kind === 'pass') await this.#pass(event.ms);
    if (event.kind === 'set') this.#walls[event.whose] = this.#wall(event.whose) + event.ms;
    if (event.kind === 'restart') await this.#start(event.which);
    if (event.kind === 'purge') await this.#store.purgeNonces({ now: this.#process(event.which).ledger(), limit: 100 });
    // The wall clocks advance on all machines; their monotonic clocks do not.
    if (event.kind === 'sleep') for (const at of this.#walls.keys()) this.#walls[at] = this.#wall(at) + event.ms;
  }

  #wall = (whose: number): number => this.#walls[whose] ?? 0;

  #process(index: number): ServiceClock {
    const process = this.#processes[index];
    if (process === undefined) throw new Error(`there is no process ${index}`);
    return process;
  }

  async #start(index: number): Promise<void> {
    const startedAt = this.#passed;
    this.#processes[index] = createServiceClock({
      now: () => this.#wall(index) + this.#passed,
      monotonic: () => 1000 * (index + 1) + this.#passed - startedAt,
    });
    await this.#keep(index);
  }

  /** As a beat does; the database has this story's clock. */
  async #keep(index: number, ledgerAt?: number): Promise<void> {
    const clock = this.#process(index);
    const kept = await this.#store.keepTime({ now: clock.now(), ledgerAt });
    clock.follow({ at: this.#wall(2) + this.#passed, ledgerAt: kept.ledgerAt }, clock.monotonic());
  }

  async #pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= BEAT_MS) {
      this.#passed += Math.min(left, BEAT_MS);
      for (const index of this.#processes.keys()) await this.#keep(index, this.#process(index).ledger());
    }
  }

  async #deliver(to: number, nonce: number): Promise<void> {
    const clock = this.#process(to);
    // The service answers 503.
    if (!clock.isFit()) return;
    this.#deliveries += 1;
    const arrivedAt = clock.ledger();
    const claim = aNonce({
      value: `${this.#name}/${nonce}`,
      arrivedAt,
      expiresAt: arrivedAt + LIFE_MS + MARGIN_MS,
    });
    const acceptance = { ...acceptanceOf(this.#name * 100 + this.#deliveries), nonce: claim };
    const { kind } = await this.#store.accept(acceptance);
    const livedMs = this.#passed - (this.#acceptedAt.get(nonce) ?? Number.NEGATIVE_INFINITY);
    if (kind === 'accepted') expect(livedMs).toBeGreaterThanOrEqual(LIFE_MS);
    // It does expire: late by at most the margin and the time that a starting process does not know of.
    else expect(livedMs).toBeLessThan(LIFE_MS + MARGIN_MS + 2 * BEAT_MS);
    if (kind === 'accepted') this.#acceptedAt.set(nonce, this.#passed);
  }
}
