import { Pill } from '../kit/pill.tsx';
import type { TraceEntry } from './explain.ts';

interface ConditionListProps {
  readonly entries: readonly TraceEntry[];
  /** Without a heading of its own. */
  readonly isBare?: boolean;
}

/** Conditions as they were evaluated: what each says, what it read, and what came of it. */
export function ConditionList({ entries, isBare = false }: ConditionListProps) {
  if (entries.length === 0) return null;
  return (
    <>
      {isBare ? null : <h3>Conditions</h3>}
      {entries.map(({ after, expression, values, result, error }) => (
        <div key={`${after} ${expression}`} class="condition">
          <div class="condition-head">
            <code class="break">{expression}</code>
            {error !== null ? (
              <Pill tone="bad" icon="warn">
                no answer
              </Pill>
            ) : (
              <Pill tone={result === true ? 'good' : 'quiet'} icon={result === true ? 'check' : 'cross'}>
                {String(result)}
              </Pill>
            )}
          </div>
          {error === null ? null : <p class="field-error break">{error}</p>}
          <dl>
            {Object.entries(values).map(([path, value]) => (
              <div key={path}>
                <dt>
                  <code>{path}</code>
                </dt>
                <dd>
                  <code class="break">{shortJson(value)}</code>
                </dd>
              </div>
            ))}
          </dl>
        </div>
      ))}
    </>
  );
}

const MAX_LETTERS = 240;

function shortJson(value: unknown): string {
  const text = JSON.stringify(value) ?? 'undefined';
  return text.length > MAX_LETTERS ? `${text.slice(0, MAX_LETTERS)}…` : text;
}
