import type { Api } from '../../../dashboard/web/api-types.ts';
import { LOOKS, type Look, type LookRow } from '../../../dashboard/web/looks.ts';
import { ownOf } from '../../../dashboard/web/spelling.ts';

/*
 * The look of runs, waits and events: tone, picture and words. Pure, so that the words are tested without a browser.
 */

/** The mark of one step in a run's picture. */
export interface StepMark extends Look {
  readonly status: Api['Step']['status'];
  /** A remark, such as how far a loop has come. */
  readonly note?: string | undefined;
}

type WaitingFor = Api['Run']['waitingFor'][number];

/** What a run can wait for: in a filter, and after the name of a step, before the time if there is one. */
export const WAITS = {
  signal: { label: 'A signal', does: 'waits for the signal', next: 'gives up' },
  delay: { label: 'The end of a delay', does: 'waits', next: 'continues' },
  retry: { label: 'The next retry', does: 'failed', next: 'retries' },
  poll: { label: 'The next poll', does: 'waits', next: 'polls again' },
  host: { label: 'A turn at a host', does: 'waits for its turn at', next: 'continues at the latest' },
  secret: { label: 'A secret', does: 'waits for a secret', next: 'looks again' },
  run: { label: 'A run of another flow', does: 'waits for the run', next: 'checks again' },
  order: { label: 'Its turn', does: 'waits for its turn behind the run', next: '' },
  coalesce: { label: 'More deliveries', does: 'waits for more deliveries', next: 'starts' },
  slot: { label: 'A free slot', does: 'waits for a free slot', next: '' },
} as const satisfies Record<
  WaitingFor['for'],
  { readonly label: string; readonly does: string; readonly next: string }
>;

const WAIT_LOOKS = {
  signal: ['warn', 'pause', 'Waiting'],
  delay: ['busy', 'clock', 'Waiting'],
  retry: ['warn', 'replay', 'Waiting'],
  poll: ['busy', 'clock', 'Waiting'],
  host: ['busy', 'pending', 'Waiting'],
  secret: ['warn', 'pause', 'Waiting'],
  run: ['busy', 'clock', 'Waiting'],
  order: ['busy', 'pending', 'Waiting'],
  coalesce: ['busy', 'pending', 'Waiting'],
  slot: ['busy', 'pending', 'Waiting'],
} as const satisfies Record<WaitingFor['for'], LookRow>;

/** A waiting run looks like what it waits for; waits for people come first. */
export function runLook({ status, waitingFor: [wait] }: Pick<Api['Run'], 'status' | 'waitingFor'>): Look {
  const [tone, icon, text] = wait === undefined ? LOOKS.status[status] : WAIT_LOOKS[wait.for];
  return { tone, icon, text };
}

const EVENTS: Readonly<Record<string, LookRow>> = {
  'run.started': ['quiet', 'play', 'Run started'],
  'run.completed': ['quiet', 'check', 'Run ended'],
  'run.cancelRequested': ['warn', 'stop', 'Cancel requested'],
  'run.timedOut': ['bad', 'clock', 'Time limit reached'],
  'step.started': ['busy', 'play', 'started'],
  'step.completed': ['good', 'check', 'succeeded'],
  'step.failed': ['bad', 'cross', 'failed'],
  'step.retried': ['warn', 'replay', 'failed, will retry'],
  'step.skipped': ['quiet', 'skip', 'skipped'],
  'signal.received': ['busy', 'deliveries', 'Signal received'],
};

/** For an event of a step, the text follows the step's key. */
interface EventLook extends Look {
  /** Additional text of the record; null if it would only repeat the text. */
  readonly detail: string | null;
}

export function eventLook({ type, message }: Pick<Api['RunEvent'], 'type' | 'message'>): EventLook {
  const [tone, icon, text] = ownOf(EVENTS, type) ?? ['quiet', 'info', type];
  return { tone, icon, text, detail: message === 'Attempt 1' ? null : message.replace(/^Attempt 1: /, '') };
}
