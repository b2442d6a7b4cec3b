import type { RunDetail, StepDetail } from '../../store/contract/runs.ts';

/** A run that was simulated, as it ended. */
export interface SimulatedRun extends RunDetail {
  /** By key; children of loops as `key.0.child`. */
  readonly steps: Readonly<Record<string, StepDetail>>;
  /** The runs that its `RunFlow` steps started, oldest first. */
  readonly subRuns: readonly SimulatedRun[];
}
