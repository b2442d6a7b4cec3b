import { useRef, useState } from 'preact/hooks';
import { withQuery } from '../../dashboard/web/address.ts';
import { ask } from '../../dashboard/web/api.ts';
import type { Api, PageOf } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import { Dialog, FormDialog, toast, type Why } from '../../dashboard/web/kit/overlays.tsx';
import { Empty, Failure, Loaded, Panel, Skeleton } from '../../dashboard/web/kit/page.tsx';
import { Pill } from '../../dashboard/web/kit/pill.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import { gravestOf } from '../../dashboard/web/looks.ts';
import { useAnswer, useResource } from '../../dashboard/web/resource.ts';
import { may } from '../../dashboard/web/scopes.ts';
import { type Allowed, allowedWords, DeployPlan, NOTHING_ALLOWED } from './deploy-plan.tsx';
import { ClassPill, Findings } from './findings.tsx';

const TAKE = 20;

interface PanelProps {
  readonly flowId: string;
  readonly inForce: number;
  /** Reloads the flow. */
  readonly refresh: () => void;
}

/** Deployed revisions, newest first, with their changes and the runs that still use them. */
export function RevisionsPanel({ flowId, inForce, refresh }: PanelProps) {
  const revisions = useResource<PageOf<Api['Revision']>>(
    withQuery(`/flows/${flowId}/revisions`, { take: TAKE, includeTotal: true }),
    { refreshOn: ['run.started', 'run.completed'] },
  );
  const [compared, setCompared] = useState<number | null>(null);
  const [restored, setRestored] = useState<number | null>(null);
  return (
    <Panel title="Revisions" aside="each run keeps the revision it started with">
      <Loaded of={revisions}>
        {({ items, total }) =>
          items.length === 0 ? (
            <Empty icon="flows" title="No revisions are stored" />
          ) : (
            <>
              <ol class="revisions">
                {items.map((revision) => (
                  <RevisionEntry
                    key={revision.revision}
                    revision={revision}
                    isInForce={revision.revision === inForce}
                    onCompare={() => setCompared(revision.revision)}
                    onRestore={() => setRestored(revision.revision)}
                  />
                ))}
              </ol>
              {total > items.length ? <p class="muted">{`${total - items.length} older`}</p> : null}
            </>
          )
        }
      </Loaded>
      {compared === null ? null : (
        <Dialog title={`Revision ${compared - 1} to ${compared}`} isWide onClose={() => setCompared(null)}>
          <div class="dialog-body">
            <Differences flowId={flowId} from={compared - 1} to={compared} />
          </div>
        </Dialog>
      )}
      {restored === null ? null : (
        <RestoreDialog
          flowId={flowId}
          revision={restored}
          onClose={() => setRestored(null)}
          onRestored={() => {
            revisions.refresh();
            refresh();
          }}
        />
      )}
    </Panel>
  );
}

interface EntryProps {
  readonly revision: Api['Revision'];
  readonly isInForce: boolean;
  readonly onCompare: () => void;
  readonly onRestore: () => void;
}

function RevisionEntry({ revision, isInForce, onCompare, onRestore }: EntryProps) {
  const { revision: number, version, createdAt, isRemoved, findings, overrides, runs, runsInFlight } = revision;
  return (
    <li>
      <p class="revision-head">
        <b>{`Revision ${number}`}</b>
        <span class="muted">{`version ${version}`}</span>
        {isInForce ? (
          <Pill tone="good" icon="check">
            In force
          </Pill>
        ) : null}
        {findings.length === 0 ? null : <ClassPill name={gravestOf(findings)} />}
        {overrides.length === 0 ? null : (
          <Pill tone="warn" icon="warn" title="The check refused it; it was deployed anyway">
            {`Allowed: ${overrides.join(', ')}`}
          </Pill>
        )}
        <span class="muted">
          <Time at={createdAt} />
          {`, ${format.counted(runs, 'run')}, ${runsInFlight} in flight`}
        </span>
        {isRemoved ? (
          <Pill tone="quiet" icon="info" title="The newest 50 are kept, and those that stored runs use">
            Manifest removed
          </Pill>
        ) : null}
        {number > 1 && !isRemoved ? (
          <button type="button" class="button small" onClick={onCompare}>
            {`Compare with ${number - 1}`}
          </button>
        ) : null}
        {isInForce || isRemoved || !may('deploy') ? null : (
          <button type="button" class="button small" onClick={onRestore}>
            Restore…<span class="unseen">{` revision ${number}`}</span>
          </button>
        )}
      </p>
      {findings.length === 0 ? null : <Findings findings={findings} />}
    </li>
  );
}

interface RestoreProps {
  readonly flowId: string;
  /** The revision to go back to. */
  readonly revision: number;
  readonly onClose: () => void;
  readonly onRestored: () => void;
}

/** Shows what going back to a revision would do according to the service, then does it. */
function RestoreDialog({ flowId, revision, onClose, onRestored }: RestoreProps) {
  const [allowed, setAllowed] = useState<Allowed>(NOTHING_ALLOWED);
  const [refused, setRefused] = useState<unknown>();
  const plan = useAnswer(
    () => restore({ flowId, revision, allowed, isPlan: true }),
    [flowId, revision, allowedWords(allowed)],
  );
  // Keeps the previous plan while the next one loads, so that a ticked box does not disappear.
  const latest = useRef<Api['Deployed']>(undefined);
  if (plan.data !== undefined) latest.current = plan.data;
  const shown = latest.current;
  const failure = refused ?? plan.error;
  const carryOut = async (why: Why) => {
    try {
      const done = await restore({ flowId, revision, allowed, isPlan: false, ...why });
      if (done.action === 'refused') throw new Error(done.refusal ?? 'The deploy was refused');
      toast('good', `Revision ${revision} is in force again, as revision ${done.revision}.`);
      onRestored();
      onClose();
    } catch (error) {
      setRefused(error);
    }
  };
  return (
    <FormDialog
      title={`Restore revision ${revision}`}
      isWide
      action="Restore"
      isDisabled={plan.data?.action !== 'updated'}
      send={carryOut}
      onClose={onClose}
    >
      {failure === undefined ? null : <Failure error={failure} />}
      {shown === undefined && failure === undefined ? <Skeleton /> : null}
      {shown === undefined ? null : <DeployPlan plan={shown} verb="Restore" allowed={allowed} onAllow={setAllowed} />}
    </FormDialog>
  );
}

interface RestoreRequest extends Why {
  readonly flowId: string;
  readonly revision: number;
  readonly allowed: Allowed;
  readonly isPlan: boolean;
}

/** A refusal is also an answer: it has the findings. */
function restore({ flowId, revision, allowed, isPlan, reason }: RestoreRequest): Promise<Api['Deployed']> {
  const path = withQuery(`/flows/${flowId}/revisions/${revision}/restore`, {
    allow: allowedWords(allowed),
    dryRun: isPlan,
    reason,
  });
  return ask<Api['Deployed']>(path, { method: 'POST', answersRefusal: true });
}

type Difference = Api['RevisionDiff']['differences'][number];

const SIGNS = { added: '+', removed: '−', changed: '±' } as const;

/** Differences between two manifests, by path; secrets are masked on both sides. */
function Differences({ flowId, from, to }: { flowId: string; from: number; to: number }) {
  const diff = useResource<Api['RevisionDiff']>(`/flows/${flowId}/revisions/${from}/diff/${to}`);
  return (
    <Loaded of={diff}>
      {({ differences }) =>
        differences.length === 0 ? (
          <Empty icon="check" title="The revisions are identical" />
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

/** A value before or after a change. */
export function Side({ sign, tone, value }: { sign: string; tone: 'before' | 'after'; value: unknown }) {
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
