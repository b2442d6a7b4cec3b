import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { AlertSettings } from '../../config/alert-targets.ts';
import { serially } from '../../model/serially.ts';
import type { AlertWatch } from './watch.ts';

/** A watch whose targets may be read again while it works. */
export interface RenewableWatch extends AlertWatch {
  /** Who is told now. */
  current(): AlertSettings | undefined;
  /** Puts these targets in place of the former ones, which stay where the store is away; never rejects. */
  renew(alerts: AlertSettings | undefined): Promise<void>;
}

export function renewableWatch(
  given: AlertSettings | undefined,
  { make, logger }: { readonly make: (alerts: AlertSettings | undefined) => AlertWatch; readonly logger: Logger },
): RenewableWatch {
  let alerts = given;
  let watch = make(given);
  let isStarted = false;
  const queue = serially();
  return {
    current: () => alerts,
    prepare: () => queue.run(() => watch.prepare()),
    start() {
      isStarted = true;
      watch.start();
    },
    deployTold: (deploys) => queue.run(() => watch.deployTold(deploys)),
    renew: (next) =>
      queue.run(async () => {
        if (!isStarted || isDeepStrictEqual(next, alerts)) return;
        try {
          const renewed = make(next);
          await renewed.prepare();
          await watch.stop();
          watch = renewed;
          alerts = next;
          watch.start();
          logger.info(
            { targets: next?.targets.map(({ name }) => name) ?? [] },
            'the targets of alerts were read again',
          );
        } catch (error) {
          logger.error({ err: error }, 'the targets of alerts could not be replaced; the former ones stay in force');
        }
      }),
    async stop() {
      isStarted = false;
      await queue.ended();
      await watch.stop();
    },
  };
}
