import type { RunEvent } from '../api-types.ts';

/** Tone, icon, words. */
const LOOKS = {
  'run.started': ['quiet', 'play', 'Run started'],
  'run.completed': ['quiet', 'check', 'Run ended'],
  'run.cancelRequested': ['warn', 'stop', 'Cancel requested'],
  'run.timedOut': ['bad', 'clock', 'Time limit reached'],
  'step.started': ['busy', 'play', 'started'],
  'step.completed': ['good', 'check', 'succeeded'],
  'step.failed': ['bad', 'cross', 'failed'],
  'step.retried': ['warn', 'replay', 'failed, will be tried again'],
  'step.skipped': ['quiet', 'skip', 'skipped'],
  'signal.received': ['busy', 'deliveries', 'Signal received'],
} as const;
const OTHER = ['quiet', 'info'] as const;

type Known = (typeof LOOKS)[keyof typeof LOOKS];

export interface EventLook {
  readonly tone: Known[0];
  readonly icon: Known[1] | (typeof OTHER)[1];
  /** What happened, behind the step's key where it happened to a step. */
  readonly text: string;
  /** What the record adds to that; null where it would only repeat it. */
  readonly detail: string | null;
}

export function eventLook({ type, message }: Pick<RunEvent, 'type' | 'message'>): EventLook {
  const [tone, icon, text] = isKnown(type) ? LOOKS[type] : [...OTHER, type];
  return { tone, icon, text, detail: message === 'Attempt 1' ? null : message.replace(/^Attempt 1: /, '') };
}

const isKnown = (type: string): type is keyof typeof LOOKS => Object.hasOwn(LOOKS, type);
