import type { Api } from '../../../dashboard/web/api-types.ts';
import { LOOKS, type Look } from '../../../dashboard/web/looks.ts';
import type { StepMark } from './looks.ts';

/** The fields of a step that determine its state. */
interface StepTimes {
  readonly stepType: string;
  readonly status: Api['Step']['status'];
  readonly signalName?: string | null;
  readonly dueAt: string | null;
  readonly attempts: readonly {
    readonly attempt: number;
    readonly status: Api['Step']['status'];
    readonly slotWaitMs: number;
    /** Present if known. */
    readonly errorCode?: string | null;
    readonly startedAt: string;
    readonly completedAt: string | null;
  }[];
}

/** The state of a step, finer than its status: a Pending step is not reached yet, due, or waiting. */
type StepState =
  | { readonly kind: 'status'; readonly status: Exclude<Api['Step']['status'], 'Pending'> }
  | { readonly kind: 'ahead' }
  | { readonly kind: 'due' }
  | { readonly kind: 'signal'; readonly name: string; readonly until: string | null }
  | { readonly kind: 'retry'; readonly attempt: number; readonly at: string | null }
  | { readonly kind: 'wait'; readonly until: string | null };

export function stepState({ status, signalName, dueAt, attempts }: StepTimes): StepState {
  if (status !== 'Pending') return { kind: 'status', status };
  const last = attempts.at(-1);
  if (last === undefined) return dueAt === null ? { kind: 'ahead' } : { kind: 'due' };
  if (last.completedAt !== null) return { kind: 'retry', attempt: last.attempt + 1, at: dueAt };
  // A waiting step keeps its attempt open: checking again is part of the same attempt.
  if (typeof signalName === 'string') return { kind: 'signal', name: signalName, until: dueAt };
  return { kind: 'wait', until: dueAt };
}

interface TellingOutline {
  readonly run: Pick<Api['Run'], 'status' | 'failure'>;
  readonly steps: readonly Pick<Api['StepOutline'], 'stepKey' | 'startedAt' | 'completedAt'>[];
}

/** The step that people look for: the cause of the failure, else the running step, else the step that ended last. */
export function tellingStepOf({ run: { status, failure }, steps }: TellingOutline): string | undefined {
  if (status === 'Failed' && failure !== null && !failure.handled) return failure.stepKey;
  const begun = steps.filter(({ startedAt }) => startedAt !== null);
  const now = status === 'Running' ? begun.find(({ completedAt }) => completedAt === null) : undefined;
  const endOf = ({ completedAt }: (typeof begun)[number]) => Date.parse(completedAt ?? '');
  const ended = begun.filter(({ completedAt }) => completedAt !== null);
  return (now ?? ended.sort((one, other) => endOf(one) - endOf(other)).at(-1))?.stepKey;
}

/** The state in one or two words. */
function stateText(state: StepState): string {
  switch (state.kind) {
    case 'status':
      return state.status;
    case 'ahead':
      return 'Not reached';
    case 'due':
      return 'Due';
    case 'retry':
      return 'Will retry';
    default:
      return 'Waiting';
  }
}

interface Counted {
  readonly path: string;
  readonly status: Api['Step']['status'];
  readonly count: number;
}

/** Most severe first: the picture shows the most severe status of all iterations of a step. */
const GRAVITY: readonly Api['Step']['status'][] = ['Failed', 'Running', 'Pending', 'Succeeded', 'Skipped'];

interface ChildCounts {
  readonly status: Api['Step']['status'];
  /** Such as "3 of 120 failed", or "120 succeeded" if all did. */
  readonly text: string;
}

/** Summary of all iterations, for each path of a loop's children. */
function childCounts(children: readonly Counted[]): Map<string, ChildCounts> {
  const byPath = new Map<string, Map<Api['Step']['status'], number>>();
  for (const { path, status, count } of children) {
    if (count === 0) continue;
    const counts = byPath.get(path) ?? new Map<Api['Step']['status'], number>();
    counts.set(status, (counts.get(status) ?? 0) + count);
    byPath.set(path, counts);
  }
  return new Map(
    [...byPath].map(([path, counts]) => {
      const present = GRAVITY.filter((status) => counts.has(status));
      const status = present[0] ?? 'Pending';
      const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
      const text = `${counts.get(status)} ${present.length > 1 ? `of ${total} ` : ''}${status.toLowerCase()}`;
      return [path, { status, text }];
    }),
  );
}

/** How a state is shown. Waiting for a person looks different from waiting for time. */
export function lookOf(state: StepState): Look {
  const text = stateText(state);
  switch (state.kind) {
    case 'status': {
      const [tone, icon] = LOOKS.status[state.status];
      return { tone, icon, text };
    }
    case 'signal':
      return { tone: 'warn', icon: 'pause', text };
    case 'retry':
      return { tone: 'warn', icon: 'replay', text };
    case 'wait':
    case 'due':
      return { tone: 'busy', icon: 'clock', text };
    default:
      return { tone: 'quiet', icon: 'pending', text };
  }
}

/** What the graph shows for each step of a run, by path. */
export function marksOf({ steps, loops, children }: Pick<Api['RunOutline'], 'steps' | 'loops' | 'children'>) {
  const marks = new Map<string, StepMark>();
  for (const step of steps) {
    marks.set(step.stepKey, { status: step.status, ...lookOf(stepState(step)), note: loopNote(step, loops) });
  }
  for (const [path, { status, text }] of childCounts(children)) {
    const [tone, icon, name] = LOOKS.status[status];
    marks.set(path, { status, tone, icon, text: name, note: text });
  }
  return marks;
}

/** Progress of a loop. */
function loopNote({ stepKey }: Api['StepOutline'], loops: Api['RunOutline']['loops']): string | undefined {
  const loop = loops.find((each) => each.stepKey === stepKey);
  if (loop === undefined) return undefined;
  const failed = loop.failed === 0 ? '' : `, ${loop.failed} failed`;
  return `${loop.ended} of ${loop.total}${failed}`;
}
