import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { serially } from '../../model/serially.ts';
import type { AlertSettings } from './targets.ts';
import type { AlertWatch } from './watch.ts';

/** A watch whose targets can be read again while it works. */
interface RenewableWatch extends AlertWatch {
  /** Replaces the targets. Keeps the former ones if the store is unavailable; never rejects. */
  renew(alerts: AlertSettings | undefined): Promise<void>;
}

interface Renewing {
  readonly make: (alerts: AlertSettings | undefined) => AlertWatch;
  /** Called when the new targets are in force. */
  readonly onRenewed: (alerts: AlertSettings | undefined) => void;
  readonly logger: Logger;
}

export function renewableWatch(
  given: AlertSettings | undefined,
  { make, onRenewed, logger }: Renewing,
): RenewableWatch {
  let alerts = given;
  let watch = make(given);
  let isStarted = false;
  const queue = serially();
  return {
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
          onRenewed(next);
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
