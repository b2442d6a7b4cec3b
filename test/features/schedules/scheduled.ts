import { onTestFinished } from 'vitest';
import { createScheduler } from '../../../src/features/schedules/scheduler.ts';
import { createReport } from '../../../src/flows/report.ts';
import { createIdSource } from '../../../src/model/ids.ts';
import { SOLE_OWNER } from '../../../src/model/runtime-keys.ts';
import type { FlowService } from '../../flows/fixture.ts';

/** A service whose runtime fires ticks while it runs. */
export interface ScheduledService extends FlowService {
  readonly scheduler: ReturnType<typeof createScheduler>;
}

/** The same service with a scheduler, which starts and stops with the runtime. */
export function withScheduler(service: FlowService): ScheduledService {
  const { runtime, store, log, metrics } = service;
  const { logger } = log;
  const scheduler = createScheduler({
    ...service,
    engine: runtime.engine,
    newId: createIdSource(),
    logger,
    report: createReport({ logger, metrics }),
    refresh: async () => {},
    isFit: () => store.replica === SOLE_OWNER || runtime.heartbeat.isFit(),
  });
  onTestFinished(() => scheduler.stop());
  return {
    ...service,
    scheduler,
    runtime: {
      ...runtime,
      async start() {
        await runtime.start();
        await scheduler.start();
      },
      async stop(graceMs) {
        await Promise.all([scheduler.stop(), runtime.stop(graceMs)]);
      },
    },
  };
}
