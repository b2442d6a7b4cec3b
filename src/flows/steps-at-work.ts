import type { Logger } from 'pino';
import type { Store } from '../store/store.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Catalog } from './catalog.ts';

/** Background work of step types while the service runs. */
export interface StepsAtWork {
  connect(runtime: StepConnections): void;
  /** Takes over the stored state, before any step runs. Rejects as the store does. */
  start(): Promise<void>;
  /** Resolves when none of its work runs any more. */
  stop(): Promise<void>;
}

interface StepConnections {
  readonly store: Store;
  readonly catalog: Pick<Catalog, 'pinned' | 'inputsOf'>;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Called when steps were made due. */
  readonly onReleased: () => void;
}

interface HostWaitOfStep {
  readonly host: string;
  readonly flowId: string;
  readonly stepKey: string;
}

/** Why a step waits for a host and the next try, in milliseconds since the Unix epoch; undefined if for its limits. */
export type DescribeHostWait = (step: HostWaitOfStep) => { readonly why: string; readonly until: number } | undefined;
