import type { Finding } from '../api-types.ts';
import { CopyButton } from '../kit/copy.tsx';
import { Icon, type IconName } from '../kit/icon.tsx';
import { Pill, type Tone } from '../kit/pill.tsx';

const CLASSES: Readonly<Record<Finding['class'], readonly [Tone, IconName, string]>> = {
  safe: ['good', 'check', 'Safe'],
  caution: ['warn', 'warn', 'Caution'],
  breaking: ['bad', 'cross', 'Breaking'],
};

export function ClassPill({ name }: { name: Finding['class'] }) {
  const [tone, icon, text] = CLASSES[name];
  return (
    <Pill tone={tone} icon={icon}>
      {text}
    </Pill>
  );
}

export function gravestOf(findings: readonly Finding[]): Finding['class'] {
  const order = ['breaking', 'caution', 'safe'] as const;
  return order.find((name) => findings.some((finding) => finding.class === name)) ?? 'safe';
}

/** What changed, what it could do, and what to do about it; the particulars open on demand. */
export function Findings({ findings }: { findings: readonly Finding[] }) {
  return (
    <ul class="findings">
      {findings.map((finding) => (
        <li key={`${finding.rule} ${finding.path}`}>
          <details>
            <summary>
              <Icon name="right" />
              <ClassPill name={finding.class} />
              <span class="break">
                <Marked text={finding.message} />
              </span>
              <code class="muted break">{finding.path}</code>
            </summary>
            <Particulars finding={finding} />
          </details>
        </li>
      ))}
    </ul>
  );
}

function Particulars({ finding: { consequence, advice, live, recipe } }: { finding: Finding }) {
  return (
    <div class="finding-body">
      <p>
        <Marked text={consequence} />
      </p>
      {live === undefined ? null : (
        <p>
          <Marked text={live} />
        </p>
      )}
      {advice === undefined ? null : (
        <p class="muted">
          <Marked text={advice} />
        </p>
      )}
      {recipe === undefined ? null : (
        <>
          <h3>{recipe.title}</h3>
          <ol class="recipe">
            {recipe.steps.map((step) => (
              <li key={step}>
                <Marked text={step} />
              </li>
            ))}
          </ol>
          {recipe.patch === undefined ? null : (
            <CopyButton text={JSON.stringify(recipe.patch, null, 2)} label="the patch">
              Copy the patch
            </CopyButton>
          )}
        </>
      )}
    </div>
  );
}

/** A sentence whose names stand in backticks. */
function Marked({ text }: { text: string }) {
  const parts = text.split('`');
  return <>{parts.map((part, index) => (index % 2 === 1 ? <code key={`${index} ${part}`}>{part}</code> : part))}</>;
}
