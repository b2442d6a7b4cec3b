import type { Logger } from 'pino';
import { type Clock, DAY_MS, deletionGuard, HOUR_MS } from '../../model/clock.ts';
import type { Store } from '../../store/store.ts';
import { createSweeper, type Sweeper } from '../../sweeper.ts';
import type { TriggerTable } from '../../webhooks/triggers.ts';
import { keysInForce } from './key-report.ts';
import { keysStore } from './store.ts';

interface KeeperServices {
  readonly store: Pick<Store, 'of'>;
  readonly triggers: () => Pick<TriggerTable, 'list'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** How long hourly counts, and records of removed keys, are kept. */
const KEPT_DAYS = 30;
const ROWS_A_CHUNK = 100;

interface KeyKeeper extends Sweeper {
  /** Records the present keys, if they changed. */
  note(): void;
}

/** Records the configured keys, after each change and every hour, and forgets keys that were removed long ago. */
export function createKeyKeeper({ store, triggers, clock, logger }: KeeperServices): KeyKeeper {
  // Logs nothing: the sweep of runs and nonces uses the same clock and logs it.
  const mayDelete = deletionGuard(clock, () => {});
  const failure = 'the statistics about keys could not be updated';
  let noted = '';
  let tidiedAt = Number.NEGATIVE_INFINITY;
  const noteAgain = async (isDue: boolean) => {
    const keys = notedKeys(triggers());
    const text = JSON.stringify(keys);
    if (!isDue && text === noted) return;
    await store.of(keysStore).noteKeys({ keys, at: clock.now() });
    noted = text;
  };
  let isAsked = false;
  const noter = createSweeper({
    async sweep() {
      while (isAsked) {
        isAsked = false;
        await noteAgain(false);
      }
    },
    failure,
    logger,
  });
  const sweeper = createSweeper({
    async sweep(inChunks) {
      const isDue = clock.monotonic() - tidiedAt >= HOUR_MS;
      await noteAgain(isDue);
      if (!isDue) return;
      const request = { before: clock.now() - KEPT_DAYS * DAY_MS, limit: ROWS_A_CHUNK };
      if (mayDelete()) await inChunks(async () => (await store.of(keysStore).tidyKeys(request)) >= ROWS_A_CHUNK);
      tidiedAt = clock.monotonic();
    },
    failure,
    logger,
    sweepsAtStart: true,
  });
  return {
    ...sweeper,
    note() {
      // Changes during recording are recorded afterwards.
      isAsked = true;
      noter.sweep();
    },
    async stop() {
      await Promise.all([noter.stop(), sweeper.stop()]);
    },
  };
}

/** A key that is both current and previous is the current one. */
function notedKeys(triggers: Pick<TriggerTable, 'list'>) {
  return triggers.list().flatMap((prepared) => {
    const { flowId, triggerKey } = prepared.trigger;
    const current = keysInForce(prepared).flatMap((key) => key?.name ?? []);
    const previous = [prepared.namedKey('previous')?.name ?? []].flat().filter((name) => !current.includes(name));
    return [
      ...current.map((keyName) => ({ flowId, triggerKey, keyName, role: 'current' as const })),
      ...previous.map((keyName) => ({ flowId, triggerKey, keyName, role: 'previous' as const })),
    ];
  });
}
