import type { Api } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import { Pill } from '../../dashboard/web/kit/pill.tsx';
import { ClassPill, Findings } from './findings.tsx';

type Allowance = 'breaking' | 'caution' | 'rollback' | 'access';
export type Allowed = Readonly<Record<Allowance, boolean>>;

export const NOTHING_ALLOWED: Allowed = { breaking: false, caution: false, rollback: false, access: false };

/** In the API's format. */
export function allowedWords(allowed: Allowed): string {
  return (['breaking', 'caution', 'rollback', 'access'] as const).filter((name) => allowed[name]).join(',');
}

interface PlanProps {
  readonly plan: Api['Deployed'];
  /** The action that is planned. */
  readonly verb: 'Deploy' | 'Restore';
  readonly allowed: Allowed;
  readonly onAllow: (allowed: Allowed) => void;
  /** Whether going back to an earlier manifest must be allowed. */
  readonly mayRollBack?: boolean;
}

/** What a deploy would do according to the service, and what must be allowed for it. */
export function DeployPlan({ plan, verb, allowed, onAllow, mayRollBack = false }: PlanProps) {
  const { action, findings, refusal, revision, version, runsInFlight, warnings } = plan;
  if (action === 'unchanged') {
    return <p>{`Revision ${revision} has the same manifest. There is nothing to ${verb.toLowerCase()}.`}</p>;
  }
  const needed = allowances({ plan, verb, mayRollBack });
  const isExplained = needed.some(({ name }) => !allowed[name]);
  return (
    <>
      <p>
        {action === 'created'
          ? `The manifest of version ${version} becomes a new flow.`
          : `The manifest of version ${version} becomes a new revision. New runs start with it; ${runsInFlight === 0 ? 'no run is in flight.' : 'runs in flight keep the revision that they started with.'}`}
      </p>
      <p class="revision-head">
        <b>{findings.length === 0 ? 'No findings' : format.counted(findings.length, 'finding')}</b>
        <ClassPill name={plan.class} />
        {action === 'refused' ? (
          <Pill tone="bad" icon="cross">
            Refused
          </Pill>
        ) : null}
      </p>
      {findings.length === 0 ? null : <Findings findings={findings} />}
      <Routes routes={plan.routes} />
      {needed.map(({ name, text }) => (
        <label key={name} class="check">
          <input
            type="checkbox"
            checked={allowed[name]}
            onChange={(event) => onAllow({ ...allowed, [name]: event.currentTarget.checked })}
          />
          {text}
        </label>
      ))}
      {refusal === null || isExplained ? null : <p class="field-error break">{refusal}</p>}
      {warnings.map((warning) => (
        <p key={warning} class="muted break">
          {warning}
        </p>
      ))}
    </>
  );
}

function allowances({ plan, verb, mayRollBack }: Pick<PlanProps, 'plan' | 'verb'> & { mayRollBack: boolean }) {
  const { findings, runsInFlight, rollbackTo } = plan;
  const has = (name: string) => findings.some((finding) => finding.class === name);
  const found: { readonly name: Allowance; readonly text: string }[] = [];
  if (has('breaking')) found.push({ name: 'breaking', text: `${verb} it even though it breaks stored history` });
  if (has('caution') && runsInFlight > 0) {
    const runs = format.counted(runsInFlight, 'run is', 'runs are');
    found.push({ name: 'caution', text: `${verb} it while ${runs} in flight, without a drain` });
  }
  if (mayRollBack && rollbackTo !== undefined) {
    found.push({ name: 'rollback', text: `Go back: it is the manifest of revision ${rollbackTo}` });
  }
  if (plan.routes.some(({ access, before }) => access === 'wider' && before !== null)) {
    found.push({ name: 'access', text: `${verb} it even though more deliveries pass than before` });
  }
  return found;
}

/** Who gets in before and after the deploy, for each route that changes. */
function Routes({ routes }: Pick<PlanProps['plan'], 'routes'>) {
  return routes.map(({ route, access, before, after, reasons }) => (
    <div key={route} class="stack">
      <p>
        <Pill tone={access === 'wider' ? 'bad' : 'good'} icon={access === 'wider' ? 'warn' : 'check'}>
          {access === 'wider' ? 'More get in' : 'Fewer get in'}
        </Pill>{' '}
        <code class="break">{route}</code>
      </p>
      <p class="break">{reasons.join(' ')}</p>
      <p class="muted break">{`Before: ${before ?? 'no such route'}. After: ${after ?? 'no such route'}.`}</p>
    </div>
  ));
}
