import type { Api } from '../../dashboard/web/api-types.ts';
import { CopyButton } from '../../dashboard/web/kit/copy.tsx';
import { Icon, Pill } from '../../dashboard/web/kit/pill.tsx';
import { LOOKS } from '../../dashboard/web/looks.ts';

export function ClassPill({ name }: { name: Api['Finding']['class'] }) {
  const [tone, icon, text] = LOOKS.finding[name];
  return (
    <Pill tone={tone} icon={icon}>
      {text}
    </Pill>
  );
}

/** Each change, its possible effects, and advice; details open on demand. */
export function Findings({ findings }: { findings: readonly Api['Finding'][] }) {
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

function Particulars({ finding: { consequence, advice, live, recipe } }: { finding: Api['Finding'] }) {
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

/** A sentence with names in backticks. */
function Marked({ text }: { text: string }) {
  const parts = text.split('`');
  return <>{parts.map((part, index) => (index % 2 === 1 ? <code key={`${index} ${part}`}>{part}</code> : part))}</>;
}
