import type { RevisionDiff } from '../api-types.ts';
import { Empty, Loaded } from '../kit/page.tsx';
import { useResource } from '../resource.ts';

type Difference = RevisionDiff['differences'][number];

const SIGNS = { added: '+', removed: '−', changed: '±' } as const;

/** Where two manifests differ, by path; secrets are masked on both sides. */
export function Differences({ flowId, from, to }: { flowId: string; from: number; to: number }) {
  const diff = useResource<RevisionDiff>(`/flows/${flowId}/revisions/${from}/diff/${to}`);
  return (
    <Loaded of={diff}>
      {({ differences }) =>
        differences.length === 0 ? (
          <Empty icon="check" title="They do not differ" />
        ) : (
          <ul class="differences">
            {differences.map((difference) => (
              <DifferenceEntry key={`${difference.kind} ${difference.path}`} difference={difference} />
            ))}
          </ul>
        )
      }
    </Loaded>
  );
}

function DifferenceEntry({ difference: { path, kind, before, after } }: { difference: Difference }) {
  return (
    <li>
      <p>
        <b aria-hidden="true">{SIGNS[kind]}</b> <code class="break">{path}</code> <span class="muted">{kind}</span>
      </p>
      {kind === 'added' ? null : <Side sign="−" tone="before" value={before} />}
      {kind === 'removed' ? null : <Side sign="+" tone="after" value={after} />}
    </li>
  );
}

function Side({ sign, tone, value }: { sign: string; tone: 'before' | 'after'; value: unknown }) {
  const lines = JSON.stringify(value, null, 2) ?? '';
  return (
    <pre class={`side ${tone}`}>
      <span class="unseen">{tone}: </span>
      {lines
        .split('\n')
        .map((line) => `${sign} ${line}`)
        .join('\n')}
    </pre>
  );
}
