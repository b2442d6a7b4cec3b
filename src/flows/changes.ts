import type { Logger } from 'pino';
import type { Change, FlowChange } from '../store/store.ts';
import type { LiveEvents } from '../telemetry/events.ts';
import type { RefreshFlow } from './engine.ts';

/** In-memory copies of the store's data, and how to read them again; each rejects as the store does. */
interface FollowerServices {
  readonly changes: AsyncIterable<Change>;
  readonly refresh: RefreshFlow;
  readonly learnedKeys: { refresh(flowId: string): Promise<void> } | undefined;
  /** Updates the features' copies. */
  readonly onChange: (change: FlowChange) => Promise<void>;
  readonly live: Pick<LiveEvents, 'emit'>;
  readonly logger: Logger;
}

/** Pause after the store failed. */
const RETRY_MS = 1000;

/**
 * Reads again what other processes changed, until it is stopped or the store closes. Failures are retried until then,
 * because no later change may repair them. Yields the function that stops it, which resolves when none of its work runs
 * any more.
 */
export function followChanges(services: FollowerServices): () => Promise<void> {
  const { changes, live, logger } = services;
  const readAgain = async (change: FlowChange) => {
    if (change.kind === 'flow') await services.refresh(change.flowId);
    if (change.kind === 'key') await services.learnedKeys?.refresh(change.flowId);
    await services.onChange(change);
  };
  const pending = new Map<string, FlowChange>();
  const failed = new Map<string, FlowChange>();
  let isStopped = false;
  /** Whether changes arrived since the last look began. */
  let isDue = false;
  let working: Promise<void> | undefined;
  let retry: NodeJS.Timeout | undefined;

  const look = async () => {
    for (const [name, change] of pending) {
      if (isStopped) return;
      pending.delete(name);
      failed.delete(name);
      try {
        await readAgain(change);
      } catch (error) {
        logger.warn({ err: error, ...change }, 'changes of another process could not be read; trying again');
        failed.set(name, change);
        retry ??= setTimeout(tryAgain, RETRY_MS).unref();
      }
    }
  };
  const tryAgain = () => {
    retry = undefined;
    for (const [name, change] of failed) pending.set(name, change);
    work();
  };
  const lookWhileDue = async () => {
    while (isDue && !isStopped) {
      isDue = false;
      await look();
    }
    working = undefined;
  };
  const work = () => {
    isDue = true;
    working ??= lookWhileDue();
  };
  const read = async () => {
    for await (const change of changes) {
      if (isStopped) return;
      if (change.kind === 'runs') {
        if (change.runIds.length === 0) live.emit({ type: 'run.changed', runId: null, flowId: null, data: {} });
        for (const runId of change.runIds) live.emit({ type: 'run.changed', runId, flowId: null, data: { runId } });
        continue;
      }
      pending.set(`${change.kind} ${change.flowId}`, change);
      work();
    }
  };
  read().catch((error: unknown) => logger.error({ err: error }, 'stopped following changes of other processes'));

  return async () => {
    isStopped = true;
    clearTimeout(retry);
    await working;
  };
}
