import type { RunOutline } from '../api-types.ts';
import { inIteration, iterationOf } from '../graph/step-paths.ts';
import { Icon } from '../kit/icon.tsx';

interface IterationStepsProps {
  readonly stepKey: string;
  readonly outline: RunOutline;
  readonly onSelect: (stepKey: string) => void;
}

/** Leads to the same step in the iterations beside this one, or in any. */
export function IterationSteps({ stepKey, outline, onSelect }: IterationStepsProps) {
  const iteration = iterationOf(stepKey);
  if (iteration === null) return null;
  const { loopKey, index } = iteration;
  const total = outline.loops.find((loop) => loop.stepKey === loopKey)?.total ?? index + 1;
  const go = (next: number) => {
    if (Number.isInteger(next) && next >= 0 && next < total) onSelect(inIteration(stepKey, next));
  };
  return (
    <div class="iteration-steps">
      <button type="button" class="icon-button" disabled={index === 0} onClick={() => go(index - 1)}>
        <Icon name="left" />
        <span class="unseen">Previous iteration</span>
      </button>
      <label>
        Iteration{' '}
        <input
          type="number"
          min={0}
          max={total - 1}
          value={index}
          onChange={(event) => go(event.currentTarget.valueAsNumber)}
        />{' '}
        <span class="muted">{`of 0 to ${total - 1}`}</span>
      </label>
      <button type="button" class="icon-button" disabled={index >= total - 1} onClick={() => go(index + 1)}>
        <Icon name="right" />
        <span class="unseen">Next iteration</span>
      </button>
    </div>
  );
}
