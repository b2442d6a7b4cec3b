import pino from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createRhythmWatch, type RhythmFinding } from '../../../src/features/rhythm/rhythm-watch.ts';
import { rhythmStore } from '../../../src/features/rhythm/store.ts';
import { firstIdAt } from '../../../src/model/delivery-ids.ts';
import type { Store } from '../../../src/store/store.ts';
import { openEmptyStore } from '../../database.ts';
import { acceptanceOf, aDelivery, aRun, deployOf, flowId, graphOf } from '../../store/samples.ts';
import { DAY, HOUR, MINUTE, MONDAY } from './traffic.ts';

const logger = pino({ level: 'silent' });
type Watched = Parameters<typeof createRhythmWatch>[0];

let store: Store;
let now: number;
/** How long no process had the store. */
let downMs: number;
let trigger: { inputs: object; mode: string; hasEvents: boolean; isEnabled: boolean };
let count: number;

beforeEach(async () => {
  store = await openEmptyStore();
  await store.deployFlow(deployOf(graphOf({ a: [] })));
  [now, downMs, count] = [MONDAY, 0, 0];
  trigger = { inputs: {}, mode: 'Enforce', hasEvents: false, isEnabled: true };
});
afterEach(() => store.close());

/** Looks once, as a process that knows only the stored data. */
async function look({ watchers = 1 } = {}): Promise<void> {
  const prepared = {
    trigger: { flowId, flowName: 'orders', triggerKey: 'github', inputs: trigger.inputs },
    mode: trigger.mode,
    searchKeys: trigger.hasEvents ? { event: {} } : undefined,
  };
  const services = {
    store,
    triggers: () => ({ list: () => [prepared] }),
    catalog: { find: () => ({ record: { isEnabled: trigger.isEnabled } }) },
    clock: { now: () => now, monotonic: () => now, ledger: () => now - downMs },
    logger,
  } as unknown as Watched;
  const watches = Array.from({ length: watchers }, () => createRhythmWatch(services));
  for (const watch of watches) watch.sweep();
  // A look at a trigger that has started is completed.
  await Promise.all(watches.map((watch) => watch.stop()));
}

const idOf = (kind: string) => `${firstIdAt(now).slice(0, 13)}-7${kind}-8000-${String(count).padStart(12, '0')}`;

/** A delivery arrives now. */
async function deliver(event?: string): Promise<void> {
  count += 1;
  const [id, runId] = [idOf('001'), idOf('002')];
  await store.accept(
    acceptanceOf(1, {
      delivery: aDelivery({ id, runId, receivedAt: now }),
      run: {
        ...aRun({ id: runId, deliveryId: id, startedAt: now }),
        ...(event === undefined ? {} : { searchKeys: { event } }),
      },
    }),
  );
}

/** A stranger's delivery, which fails the gates. */
async function attack(change: object): Promise<void> {
  count += 1;
  const [id, runId] = [idOf('001'), idOf('002')];
  const delivery = aDelivery({ id, receivedAt: now, rejected: true, reason: 'signature_mismatch', ...change });
  const failed = { ...delivery, violations: ['signature_mismatch'] as const };
  if (delivery.enforced) return store.recordDelivery(failed);
  await store.accept(
    acceptanceOf(1, { delivery: { ...failed, runId }, run: aRun({ id: runId, deliveryId: id, startedAt: now }) }),
  );
}

async function found(): Promise<RhythmFinding[]> {
  const rows = await store.of(rhythmStore).listRhythms();
  return rows.flatMap((row) => row.found as unknown as RhythmFinding[]);
}

/** A delivery every hour, and a look after each. */
async function hourly(hours: number, event?: string): Promise<void> {
  for (let n = 0; n < hours; n += 1) {
    now += HOUR;
    await deliver(event);
  }
  await look();
}

async function later(ms: number): Promise<RhythmFinding[]> {
  now += ms;
  await look();
  return found();
}

describe('a learned rhythm', () => {
  beforeEach(async () => {
    await look();
    await hourly(15 * 24);
  });

  it('tells a silence until the next delivery, whichever process looks', async () => {
    const lastAt = now;
    expect(await later(90 * MINUTE)).toEqual([]);
    const silence = { kind: 'trigger_silent', lastAt, from: lastAt, everyMs: null, event: null };
    expect(await later(8 * HOUR)).toEqual([silence]);
    await deliver();
    expect(await later(MINUTE)).toEqual([]);
  });

  it('is neither taught nor satisfied by what fails a gate', async () => {
    const lastAt = now;
    for (const enforced of [true, false]) {
      now += 4 * HOUR;
      await attack({ enforced, statusCode: enforced ? 401 : 200, runId: null });
      await look();
    }
    const silences = (await later(4 * HOUR)).filter(({ kind }) => kind === 'trigger_silent');
    expect(silences).toMatchObject([{ lastAt }]);
    const hours = await store.of(rhythmStore).listArrivalHours({ flowId, triggerKey: 'github' });
    expect(Math.max(...hours.map((hour) => hour.lastAt))).toBe(lastAt);
  });

  it('is not broken by the time in which the service was down, nor right after it', async () => {
    now += DAY;
    downMs += DAY;
    await look();
    expect(await found()).toEqual([]);
    expect(await later(HOUR)).toEqual([]);
    expect(await later(8 * HOUR)).toMatchObject([{ kind: 'trigger_silent', from: now - 9 * HOUR }]);
  });

  it.each([
    ['is closed', { isEnabled: false }],
    ['has the mode Off', { mode: 'Off' }],
    ['is not to be watched', { inputs: { webhookExpectEvery: 'OFF' } }],
  ])('is not asked for where the trigger %s, and begins again once that is over', async (_what, change) => {
    const before = { ...trigger };
    Object.assign(trigger, change);
    await look();
    expect(await later(DAY)).toEqual([]);
    if ('inputs' in change) return;
    trigger = before;
    await look();
    expect(await found()).toEqual([]);
    expect(await later(HOUR)).toEqual([]);
    expect(await later(8 * HOUR)).toHaveLength(1);
  });

  it('tells refusals of a trigger that had none, from the third one on', async () => {
    const refuse = async () => {
      now += MINUTE;
      await attack({ enforced: true, statusCode: 401, runId: null });
      await look();
      return found();
    };
    const began = {
      kind: 'refusals_began',
      count: 3,
      reason: 'signature_mismatch',
      since: Math.floor(now / HOUR) * HOUR,
    };
    expect([await refuse(), await refuse(), await refuse()]).toEqual([[], [], [began]]);
    await hourly(3);
    expect(await found()).toEqual([]);
  });
});

it('tells the kind of event that is missing while others come', async () => {
  trigger.hasEvents = true;
  await look();
  for (let n = 0; n < 15 * 24; n += 1) {
    now += HOUR;
    await deliver(n % 2 === 0 ? 'order.created' : 'order.paid');
  }
  await look();
  await hourly(30, 'order.created');
  expect(await found()).toEqual([expect.objectContaining({ kind: 'trigger_silent', event: 'order.paid' })]);
});

it('is counted once by several processes', async () => {
  await look();
  now += HOUR;
  for (let n = 0; n < 5; n += 1) await deliver();
  await look({ watchers: 3 });
  await look({ watchers: 3 });
  expect(await store.of(rhythmStore).listArrivalHours({ flowId, triggerKey: 'github' })).toMatchObject([{ count: 5 }]);
});

it('knows a bounded number of kinds, whatever they are called', async () => {
  trigger.hasEvents = true;
  await look();
  now += HOUR;
  for (const event of ['__proto__', 'constructor']) await deliver(event);
  for (let n = 0; n < 40; n += 1) await deliver(`kind ${n}`);
  await look();
  now += HOUR;
  for (let n = 0; n < 40; n += 1) await deliver(`other ${n}`);
  await look();
  const hours = await store.of(rhythmStore).listArrivalHours({ flowId, triggerKey: 'github' });
  expect(new Set(hours.flatMap(({ event }) => event ?? [])).size).toBe(32);
  expect(hours.filter(({ event }) => event === null).map((hour) => hour.count)).toEqual([42, 40]);
});

describe('an interval that the manifest names', () => {
  beforeEach(() => {
    trigger.inputs = { webhookExpectEvery: 'PT2H' };
  });

  it('counts from the first look on where nothing ever came', async () => {
    await look();
    expect(await later(2 * HOUR)).toEqual([]);
    const silence = { kind: 'trigger_silent', lastAt: null, from: MONDAY, everyMs: 2 * HOUR, event: null };
    expect(await later(1)).toEqual([silence]);
  });

  it('counts from the last delivery on, and not the time in which the service was down', async () => {
    await look();
    await hourly(1);
    expect(await later(HOUR)).toEqual([]);
    now += 5 * HOUR;
    downMs += 5 * HOUR;
    await look();
    expect(await found()).toEqual([]);
    expect(await later(2 * HOUR)).toEqual([]);
    expect(await later(1)).toMatchObject([{ kind: 'trigger_silent' }]);
  });
});
