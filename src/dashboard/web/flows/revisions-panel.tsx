import { useState } from 'preact/hooks';
import { withQuery } from '../api.ts';
import type { PageOf, Revision } from '../api-types.ts';
import { counted } from '../format.ts';
import { Dialog } from '../kit/dialog.tsx';
import { Empty, Loaded, Panel } from '../kit/page.tsx';
import { Pill } from '../kit/pill.tsx';
import { Time } from '../kit/time.tsx';
import { useResource } from '../resource.ts';
import { Differences } from './differences.tsx';
import { ClassPill, Findings, gravestOf } from './findings.tsx';

const TAKE = 20;

/** What was deployed, the newest first, with what each changed and who still runs by it. */
export function RevisionsPanel({ flowId, inForce }: { flowId: string; inForce: number }) {
  const revisions = useResource<PageOf<Revision>>(
    withQuery(`/flows/${flowId}/revisions`, { take: TAKE, includeTotal: true }),
    { refreshOn: ['run.started', 'run.completed'] },
  );
  const [compared, setCompared] = useState<number | null>(null);
  return (
    <Panel title="Revisions" aside="each run keeps to the one that it was started from">
      <Loaded of={revisions}>
        {({ items, total }) =>
          items.length === 0 ? (
            <Empty icon="flows" title="No revision is kept" />
          ) : (
            <>
              <ol class="revisions">
                {items.map((revision) => (
                  <RevisionEntry
                    key={revision.revision}
                    revision={revision}
                    isInForce={revision.revision === inForce}
                    onCompare={() => setCompared(revision.revision)}
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
    </Panel>
  );
}

interface EntryProps {
  readonly revision: Revision;
  readonly isInForce: boolean;
  readonly onCompare: () => void;
}

function RevisionEntry({ revision, isInForce, onCompare }: EntryProps) {
  const { revision: number, version, createdAt, findings, overrides, runs, runsInFlight } = revision;
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
          <Pill tone="warn" icon="warn" title="It was refused, and deployed all the same">
            {`Allowed: ${overrides.join(', ')}`}
          </Pill>
        )}
        <span class="muted">
          <Time at={createdAt} />
          {`, ${counted(runs, 'run')}, ${runsInFlight} in flight`}
        </span>
        {number > 1 ? (
          <button type="button" class="button small" onClick={onCompare}>
            {`Compare with ${number - 1}`}
          </button>
        ) : null}
      </p>
      {findings.length === 0 ? null : <Findings findings={findings} />}
    </li>
  );
}
