import type { Api } from '../../../dashboard/web/api-types.ts';
import { LOOKS, type Look, type StepMark } from '../../../dashboard/web/looks.ts';

/** As much of a step as its state needs. */
interface StepTimes {
  readonly stepType: string;
  readonly status: Api['Step']['status'];
  readonly signalName?: string | null;
  readonly dueAt: string | null;
  readonly attempts: readonly {
    readonly attempt: number;
    readonly status: Api['Step']['status'];
    readonly slotWaitMs: number;
    /** Where it is known. */
    readonly errorCode?: string | null;
    readonly startedAt: string;
    readonly completedAt: string | null;
  }[];
}

/** The state of a step, finer than its status: what is Pending may not be reached, due, or wait for something. */
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
  // A step that waits keeps its attempt open: looking again is part of the same try.
  if (typeof signalName === 'string') return { kind: 'signal', name: signalName, until: dueAt };
  return { kind: 'wait', until: dueAt };
}

interface TellingOutline {
  readonly run: Pick<Api['Run'], 'status' | 'failure'>;
  readonly steps: readonly Pick<Api['StepOutline'], 'stepKey' | 'startedAt' | 'completedAt'>[];
}

/** The step that people come for: what made the run fail, else where the run is now, else what ended last. */
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

/** The gravest first: of many iterations of one step the picture shows what needs a look. */
const GRAVITY: readonly Api['Step']['status'][] = ['Failed', 'Running', 'Pending', 'Succeeded', 'Skipped'];

interface ChildCounts {
  readonly status: Api['Step']['status'];
  /** Such as "3 of 120 failed", or "120 succeeded" where all have. */
  readonly text: string;
}

/** Children of loops by path: what all iterations together show. */
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

/** How a state is shown. What waits for a person looks different from what waits for time. */
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

/** What a picture of the graph says of each step of a run, by path. */
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

/** How far a loop has come. */
function loopNote({ stepKey }: Api['StepOutline'], loops: Api['RunOutline']['loops']): string | undefined {
  const loop = loops.find((each) => each.stepKey === stepKey);
  if (loop === undefined) return undefined;
  const failed = loop.failed === 0 ? '' : `, ${loop.failed} failed`;
  return `${loop.ended} of ${loop.total}${failed}`;
}
