import { Icon } from '../kit/icon.tsx';
import { edgeText } from './edge-label.ts';
import { type LaidStep, LOOP_HEADER } from './layout.ts';
import type { StepMark } from './step-mark.ts';

interface StepNodeProps {
  readonly laid: LaidStep;
  readonly mark: StepMark | undefined;
  readonly isSelected: boolean;
  /** Tab comes here first. */
  readonly isEntry: boolean;
  readonly onSelect: ((path: string) => void) | undefined;
  readonly onKeyDown: (event: KeyboardEvent) => void;
}

const LOOP_MARGIN = 8;

/** A step; where it can be selected a button, so that keyboards and screen readers know what it is without being told. */
export function StepNode({ laid, mark, isSelected, isEntry, onSelect, onKeyDown }: StepNodeProps) {
  const { path, stepKey, step, x, y, width, height } = laid;
  const isLoop = step.steps !== undefined;
  const margin = isLoop ? LOOP_MARGIN : 0;
  const place = {
    left: `${x + margin}px`,
    top: `${y + margin}px`,
    width: `${width - 2 * margin}px`,
    height: `${isLoop ? LOOP_HEADER - 2 * LOOP_MARGIN : height}px`,
  };
  const looks = {
    class: ['graph-node', mark?.tone ?? 'plain', isLoop ? 'loop' : '', isSelected ? 'selected' : ''].join(' '),
    style: place,
    title: `${stepKey} (${step.type})${mark?.note === undefined ? '' : `: ${mark.note}`}`,
  };
  const content = (
    <>
      <Icon name={mark?.icon ?? (isLoop ? 'replay' : 'flows')} spins={mark?.icon === 'spinner'} />
      <span class="graph-text">
        <span class="graph-key">{stepKey}</span>
        <span class="graph-type">
          {isLoop || mark?.note === undefined ? step.type : null}
          {mark === undefined ? null : <span class="graph-status">{statusText(mark, isLoop)}</span>}
        </span>
      </span>
      <span class="unseen">{wiring(laid)}</span>
    </>
  );
  if (onSelect === undefined) return <div {...looks}>{content}</div>;
  return (
    <button
      {...looks}
      type="button"
      data-path={path}
      tabIndex={isEntry ? 0 : -1}
      aria-pressed={isSelected}
      onClick={() => onSelect(path)}
      onKeyDown={onKeyDown}
    >
      {content}
    </button>
  );
}

/** What all iterations together came to takes the place of the type: there is no room for both. */
function statusText({ note, text }: StepMark, isLoop: boolean): string {
  if (note === undefined) return ` · ${text}`;
  return isLoop ? ` · ${note}` : note;
}

function wiring({ step }: LaidStep): string {
  const edges = Object.entries(step.runAfter).map(([upstream, edge]) => {
    const text = edgeText(edge);
    return text === null ? upstream : `${upstream} (${text})`;
  });
  return edges.length === 0 ? ', starts first' : `, after ${edges.join(' and ')}`;
}
