import type { RunOutline, StepOutline } from '../api-types.ts';
import type { StepMark } from '../graph/step-mark.ts';
import type { IconName } from '../kit/icon.tsx';
import { STATUSES, type Tone } from '../kit/pill.tsx';
import { childCounts } from './run-statuses.ts';
import { type StepState, stateText, stepState } from './step-state.ts';

interface Look {
  readonly tone: Tone;
  readonly icon: IconName;
  readonly text: string;
}

/** How a step that stands so is shown. What waits for somebody to do something stands out from what waits for time. */
export function lookOf(state: StepState): Look {
  const text = stateText(state);
  switch (state.kind) {
    case 'status': {
      const [tone, icon] = STATUSES[state.status];
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
export function marksOf({ steps, loops, children }: Pick<RunOutline, 'steps' | 'loops' | 'children'>) {
  const marks = new Map<string, StepMark>();
  for (const step of steps) {
    marks.set(step.stepKey, { status: step.status, ...lookOf(stepState(step)), note: loopNote(step, loops) });
  }
  for (const [path, { status, text }] of childCounts(children)) {
    const [tone, icon, name] = STATUSES[status];
    marks.set(path, { status, tone, icon, text: name, note: text });
  }
  return marks;
}

/** How far a loop has come. */
function loopNote({ stepKey }: StepOutline, loops: RunOutline['loops']): string | undefined {
  const loop = loops.find((each) => each.stepKey === stepKey);
  if (loop === undefined) return undefined;
  const failed = loop.failed === 0 ? '' : `, ${loop.failed} failed`;
  return `${loop.ended} of ${loop.total}${failed}`;
}
