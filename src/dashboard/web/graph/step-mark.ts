import type { StepStatus } from '../api-types.ts';
import type { IconName } from '../kit/icon.tsx';
import type { Tone } from '../kit/pill.tsx';

/** What a picture says of one step of a run. */
export interface StepMark {
  readonly status: StepStatus;
  readonly tone: Tone;
  readonly icon: IconName;
  readonly text: string;
  /** Beside it, such as how far a loop has come. */
  readonly note?: string | undefined;
}
