import type { AppOptions, Parts } from './app-parts.ts';
import { databaseTarget, maskedPlace } from './config/database.ts';
import type { Settings } from './config/settings-schema.ts';
import { StoreUnavailableError } from './errors.ts';
import { openStore, type StoreBounds } from './store/open-store.ts';
import type { Store } from './store/store.ts';

export function openStoreOf(
  settings: Settings,
  {
    folder,
    logger,
    onFatal,
    onMigrating,
    sealer,
    metrics,
  }: Pick<AppOptions, 'onFatal' | 'onMigrating'> & Pick<Parts, 'logger' | 'sealer' | 'metrics'> & { folder: string },
): Promise<Store> {
  const target = databaseTarget(settings, folder);
  const bounds = storeBounds(settings);
  // Bound, not wrapped: it is called for every delivery.
  const onCommitted: (seconds: number) => void = metrics.commitSeconds.observe.bind(metrics.commitSeconds);
  const { variable, place } = maskedPlace(settings);
  // An operator who expected the old database notices before publishers do.
  const onCreated = () => {
    const schema = target.kind === 'postgres' ? `, schema ${target.schema}` : '';
    logger.info(`made a new, empty database: ${place}${schema} (${variable})`);
  };
  const onForeign = (foreign: readonly string[]) =>
    logger.warn(
      { foreign },
      'the database has triggers, views or indexes that Sluice did not make: they may change or slow what it writes',
    );
  if (target.kind === 'postgres') {
    return openStore({
      ...target,
      ...bounds,
      sealer,
      onCreated,
      onCommitted,
      onForeign,
      onMigrating,
      onBlocked: (error) => logger.warn({ err: error }, 'others hold what a migration has to lock; trying again'),
      // PostgreSQL keeps 63 bytes, including the purpose that follows.
      applicationName: `sluice/${target.replica.slice(0, 48)}`,
      onFatal,
      // At debug: the effect of an outage is logged once, below.
      onEngineLine: (line) => logger.debug({ engine: 'graphile-worker' }, line),
      onAway: (error) =>
        logger.error({ err: error }, 'the database is unavailable; deliveries get 503 until it is back'),
      onBack: (awayMs) => logger.warn({ awayMs: Math.round(awayMs) }, 'the database is back'),
    });
  }
  const opened = openStore({
    ...target,
    ...bounds,
    sealer,
    onCreated,
    onForeign,
    onMigrating,
    onCommitted,
    ...(onFatal === undefined ? {} : { onFatal }),
    // The process goes on: while it runs, an operator can still rescue the lost file.
    onLost: (error) => logger.fatal({ err: error }, 'the database file is gone or damaged; every delivery gets 503'),
  });
  return opened.catch((error: unknown) => {
    if (!(error instanceof StoreUnavailableError)) throw error;
    throw new StoreUnavailableError(`${error.message} (${variable})`, { cause: error, isForGood: error.isForGood });
  });
}

/** Limit for refused deliveries, and for held ones, so that no flood fills the disk. A row counts as at least 1 KiB. */
const MAX_DELIVERY_BYTES = 268_435_456;

function storeBounds({ deliveryStore, deliveryRingSize }: Settings): StoreBounds {
  const inMemory = deliveryStore === 'memory';
  const unbounded = Number.POSITIVE_INFINITY;
  return {
    log: { inMemory, maxRows: inMemory ? deliveryRingSize : unbounded, maxBytes: MAX_DELIVERY_BYTES },
    held: { maxRows: unbounded, maxBytes: MAX_DELIVERY_BYTES },
  };
}
