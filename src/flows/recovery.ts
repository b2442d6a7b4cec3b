import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import type { Store } from '../store/store.ts';

/**
 * Makes the steps that a dead process left behind due at once, instead of when their leases run out. Only for a start
 * that knows it is the only process on its store. Yields how many there were.
 */
export async function recoverSteps(services: {
  store: Pick<Store, 'recover'>;
  clock: Clock;
  logger: Logger;
}): Promise<number> {
  const steps = await services.store.recover(services.clock.now());
  if (steps > 0) services.logger.info({ steps }, 'steps that the last process left running are taken up again');
  return steps;
}
