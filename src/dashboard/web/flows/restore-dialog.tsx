import { useRef, useState } from 'preact/hooks';
import { withQuery } from '../address.ts';
import { ask } from '../api.ts';
import type { Api } from '../api-types.ts';
import { format } from '../format.ts';
import { Dialog, toast } from '../kit/overlays.tsx';
import { Failure, Skeleton } from '../kit/page.tsx';
import { Pill } from '../kit/pill.tsx';
import { useAnswer } from '../resource.ts';
import { ClassPill, Findings } from './findings.tsx';

interface RestoreProps {
  readonly flowId: string;
  /** The one to go back to. */
  readonly revision: number;
  readonly onClose: () => void;
  readonly onRestored: () => void;
}

type Allowance = 'breaking' | 'caution';
type Allowed = Readonly<Record<Allowance, boolean>>;

/** Shows what going back to a revision would do, as the service judges it, and then does it. */
export function RestoreDialog({ flowId, revision, onClose, onRestored }: RestoreProps) {
  const [allowed, setAllowed] = useState<Allowed>({ breaking: false, caution: false });
  const [isBusy, setBusy] = useState(false);
  const [refused, setRefused] = useState<unknown>();
  const plan = useAnswer(
    () => restore({ flowId, revision, allowed, isPlan: true }),
    [flowId, revision, allowed.breaking, allowed.caution],
  );
  // The plan before stays while the next is asked for, so that a box that is ticked does not go away.
  const latest = useRef<Api['Deployed']>(undefined);
  if (plan.data !== undefined) latest.current = plan.data;
  const shown = latest.current;
  const failure = refused ?? plan.error;
  const isReady = plan.data?.action === 'updated' && !isBusy;
  const carryOut = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const done = await restore({ flowId, revision, allowed, isPlan: false });
      if (done.action === 'refused') throw new Error(done.refusal ?? 'The deploy was refused');
      toast('good', `Revision ${revision} is in force again, as revision ${done.revision}.`);
      onRestored();
      onClose();
    } catch (error) {
      setRefused(error);
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Restore revision ${revision}`} isWide onClose={onClose}>
      <form onSubmit={(event) => void carryOut(event)}>
        <div class="dialog-body">
          {failure === undefined ? null : <Failure error={failure} />}
          {shown === undefined && failure === undefined ? <Skeleton /> : null}
          {shown === undefined ? null : <Plan plan={shown} allowed={allowed} onAllow={setAllowed} />}
        </div>
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button primary" disabled={!isReady}>
            Restore
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

interface PlanProps {
  readonly plan: Api['Deployed'];
  readonly allowed: Allowed;
  readonly onAllow: (allowed: Allowed) => void;
}

function Plan({ plan, allowed, onAllow }: PlanProps) {
  const { action, findings, refusal, revision, version, runsInFlight, warnings } = plan;
  if (action === 'unchanged')
    return <p>{`Revision ${revision} has the same manifest. There is nothing to restore.`}</p>;
  const has = (name: Allowance) => findings.some((finding) => finding.class === name);
  const needed = [
    ...(has('breaking')
      ? [{ name: 'breaking', text: 'Restore it even though it breaks what is stored' } as const]
      : []),
    ...(has('caution') && runsInFlight > 0
      ? [
          {
            name: 'caution',
            text: `Restore it while ${format.counted(runsInFlight, 'run is', 'runs are')} in flight, without a drain`,
          } as const,
        ]
      : []),
  ];
  const isExplained = needed.some(({ name }) => !allowed[name]);
  return (
    <>
      <p>
        {`The manifest of version ${version} becomes a new revision. New runs start with it; `}
        {runsInFlight === 0 ? 'no run is in flight.' : 'runs in flight keep the revision that they started with.'}
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

interface RestoreRequest {
  readonly flowId: string;
  readonly revision: number;
  readonly allowed: Allowed;
  readonly isPlan: boolean;
}

/** A refusal is an answer too: it has the findings. */
function restore({ flowId, revision, allowed, isPlan }: RestoreRequest): Promise<Api['Deployed']> {
  const allow = (['breaking', 'caution'] as const).filter((name) => allowed[name]).join(',');
  const path = withQuery(`/flows/${flowId}/revisions/${revision}/restore`, { allow, dryRun: isPlan });
  return ask<Api['Deployed']>(path, { method: 'POST', answersRefusal: true });
}
