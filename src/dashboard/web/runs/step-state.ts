import type { StepStatus } from '../api-types.ts';

/** As much of a step as tells where it stands. */
export interface StepTimes {
  readonly stepType: string;
  readonly status: StepStatus;
  readonly signalName?: string | null;
  readonly dueAt: string | null;
  readonly attempts: readonly {
    readonly attempt: number;
    readonly status: StepStatus;
    readonly slotWaitMs: number | null;
    readonly startedAt: string;
    readonly completedAt: string | null;
  }[];
}

/** Where a step stands, one word finer than its status: what is Pending may not be reached, due, or wait for something. */
export type StepState =
  | { readonly kind: 'status'; readonly status: Exclude<StepStatus, 'Pending'> }
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

/** The state in one or two words. */
export function stateText(state: StepState): string {
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
