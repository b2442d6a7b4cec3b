import type { Clock } from '../../model/clock.ts';
import { triggerMapKey } from '../../model/trigger-name.ts';

/** Limit of triggers: an operator mends one after the other. */
const MOST_UNFIT = 100;

/** Outputs of a step that could not be used as an answer; the senders got the fixed answer. */
interface UnfitStep {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly stepKey: string;
  readonly count: number;
  readonly lastAt: number;
  readonly runId: string;
  readonly why: string;
}

/** The steps that gave no usable answer, by trigger. */
export interface UnfitAnswers {
  note(step: Omit<UnfitStep, 'count' | 'lastAt'>): void;
  since(since: number): readonly UnfitStep[];
}

export function createUnfitAnswers(clock: Clock): UnfitAnswers {
  const unfit = new Map<string, UnfitStep>();
  return {
    note(step) {
      const name = triggerMapKey(step);
      const count = (unfit.get(name)?.count ?? 0) + 1;
      unfit.delete(name);
      unfit.set(name, { ...step, count, lastAt: clock.now() });
      const [oldest] = unfit.keys();
      if (unfit.size > MOST_UNFIT && oldest !== undefined) unfit.delete(oldest);
    },
    since: (since) => [...unfit.values()].filter(({ lastAt }) => lastAt >= since),
  };
}
