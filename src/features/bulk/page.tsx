import { useEffect, useState } from 'preact/hooks';
import { splitAddress } from '../../dashboard/web/address.ts';
import { ask } from '../../dashboard/web/api.ts';
import type { PageOf } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import { FormDialog, type Why } from '../../dashboard/web/kit/overlays.tsx';
import { Failure, Skeleton } from '../../dashboard/web/kit/page.tsx';
import { Icon, StatusPill } from '../../dashboard/web/kit/pill.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useAnswer } from '../../dashboard/web/resource.ts';
import { useQuery } from '../../dashboard/web/router.ts';
import { may } from '../../dashboard/web/scopes.ts';
import { runList } from '../runs/page/list.ts';
import type { RunBulkAnswers } from './service.ts';

type Action = RunBulkAnswers['BulkAction'];

/** The most runs in one plan. */
const LIMIT = 10_000;
interface ActionWords {
  readonly icon: 'stop' | 'replay' | 'play';
  readonly button: string;
  readonly title: string;
  /** Which runs it applies to, if the list shows every status. */
  readonly meaning: string;
  readonly verb: (count: string) => string;
  readonly done: string;
  readonly statuses: readonly string[];
}

const WORDS: Readonly<Record<Action, ActionWords>> = {
  cancel: {
    icon: 'stop',
    button: 'Cancel all…',
    title: 'Cancel runs',
    meaning: 'Running steps are told to stop, and waiting steps do not start. You cannot undo this.',
    verb: (count) => `Cancel ${count}`,
    done: 'cancelled',
    statuses: ['', 'Running'],
  },
  retry: {
    icon: 'replay',
    button: 'Retry all…',
    title: 'Retry failed runs',
    meaning:
      'The steps that made each run fail are retried, with the inputs of the newest revision, or their own where that pins them.',
    verb: (count) => `Retry ${count}`,
    done: 'retried',
    statuses: ['', 'Failed'],
  },
  rerun: {
    icon: 'play',
    button: 'Run all again…',
    title: 'Run again',
    meaning:
      'Each run that has ended starts again, with the newest revision and the same input. Steps that send or charge do so again.',
    verb: (count) => `Start ${count} again`,
    done: 'started again',
    statuses: ['', 'Succeeded', 'Failed', 'TimedOut', 'Cancelled', 'Skipped'],
  },
};

/** Buttons for actions on all runs that match the list's filters. */
function BulkActions() {
  const [query] = useQuery();
  const [asked, setAsked] = useState<Action>();
  const status = query.get('status') ?? '';
  const offered = (['cancel', 'retry', 'rerun'] as const).filter((action) => WORDS[action].statuses.includes(status));
  if (!may('operate')) return null;
  return (
    <>
      {offered.map((action) => (
        <button key={action} type="button" class="button" onClick={() => setAsked(action)}>
          <Icon name={WORDS[action].icon} />
          {WORDS[action].button}
        </button>
      ))}
      {asked === undefined ? null : (
        <BulkDialog action={asked} filter={filterOf(query)} onClose={() => setAsked(undefined)} />
      )}
    </>
  );
}

type Filter = Readonly<Record<string, string>>;

/** The query of the list to the API, without paging. */
function filterOf(query: URLSearchParams): Filter {
  const { skip, take, includeTotal, ...filter } = Object.fromEntries(
    new URLSearchParams(splitAddress(runList.path(query)).search),
  );
  return filter;
}

interface DialogProps {
  readonly action: Action;
  readonly filter: Filter;
  readonly onClose: () => void;
}

/** Shows the plan and carries out exactly that; the service continues if the dialog is closed. */
function BulkDialog({ action, filter, onClose }: DialogProps) {
  const path = `/runs/${action}`;
  const plan = useAnswer(
    () => ask<RunBulkAnswers['RunPlan']>(path, { method: 'POST', body: { ...filter, limit: LIMIT } }),
    [path, JSON.stringify(filter)],
  );
  const [given, setGiven] = useState<Why>({});
  const [started, setStarted] = useState<RunBulkAnswers['StartedRunPlan']>();
  const [refused, setRefused] = useState<unknown>();
  const [isSending, setSending] = useState(false);
  const ready = plan.data?.ready ?? 0;
  const { title, meaning, verb } = WORDS[action];
  const carryOut = async (why: Why) => {
    setGiven(why);
    setSending(true);
    setRefused(undefined);
    try {
      const body = { plan: false, token: plan.data?.token, ...why };
      setStarted(await ask<RunBulkAnswers['StartedRunPlan']>(path, { method: 'POST', body }));
    } catch (error) {
      setRefused(error);
    }
    setSending(false);
  };
  const failure = refused ?? plan.error;
  return (
    <FormDialog
      title={title}
      isWide
      close="Close"
      action={started !== undefined ? undefined : ready === 0 ? 'Nothing to do' : verb(format.counted(ready, 'run'))}
      isDangerous={action === 'cancel'}
      isDisabled={ready === 0}
      reason={plan.data === undefined || started !== undefined ? 'none' : 'optional'}
      send={carryOut}
      onClose={onClose}
    >
      {failure === undefined ? null : <Failure error={failure} />}
      {plan.data === undefined && failure === undefined ? <Skeleton lines={4} /> : null}
      {plan.data === undefined || started !== undefined ? null : (
        <>
          <p>{meaning}</p>
          <Plan plan={plan.data} action={action} />
        </>
      )}
      {started === undefined ? null : (
        <Progress
          key={started.interventionId}
          action={action}
          started={started}
          goOn={() => void carryOut(given)}
          isSending={isSending}
        />
      )}
    </FormDialog>
  );
}

function Plan({
  plan: { total, looked, ready, leftOut, sample },
  action,
}: {
  plan: RunBulkAnswers['RunPlan'];
  action: Action;
}) {
  return (
    <>
      <p>
        <b>{format.counted(ready, 'run')}</b>
        {` will be ${WORDS[action].done}.`}
      </p>
      <ul class="groups">
        {leftOut.map(({ reason, message, count, example }) => (
          <li key={reason}>
            <b>{format.count(count)}</b>
            <span class="muted">left out</span>
            <span>{message}</span>
            <a href={`/flows/runs/${example}`}>example</a>
          </li>
        ))}
      </ul>
      {total > looked ? (
        <p>{`${format.count(total)} runs match. This applies to the newest ${format.count(looked)}; repeat it for the others.`}</p>
      ) : null}
      {sample.length === 0 ? null : (
        <section class="sample">
          <h3>{ready > sample.length ? `The oldest ${format.count(sample.length)} of them` : 'These runs'}</h3>
          <ul>
            {sample.map(({ id, flowName, status, startedAt }) => (
              <li key={id}>
                <StatusPill status={status} />
                <a class="cut" href={`/flows/runs/${id}`}>
                  {flowName}
                </a>
                <Time at={startedAt} withClock />
                <code class="minor">{format.shortId(id)}</code>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

const POLL_MS = 500;
/** A hundred runs take less time, unless the database hangs. */
const SILENT_POLLS = 40;

interface ProgressProps {
  readonly action: Action;
  readonly started: RunBulkAnswers['StartedRunPlan'];
  readonly goOn: () => void;
  readonly isSending: boolean;
}

function Progress({ action, started: { interventionId, planned }, goOn, isSending }: ProgressProps) {
  const { intervention, error, silentPolls } = useIntervention(interventionId);
  const { done = '0', leftOut = '0' } = intervention?.details ?? {};
  const handled = Number(done) + Number.parseInt(leftOut, 10);
  const outcome = intervention?.outcome ?? 'unknown';
  const isStuck = outcome === 'failed' || (outcome === 'unknown' && silentPolls > SILENT_POLLS);
  const words = { done: 'Done', failed: 'Stopped', refused: 'Stopped', unknown: 'In progress' } as const;
  return (
    <>
      <label class="progress">
        <span>{`${words[outcome]}: ${format.count(handled)} of ${format.counted(planned, 'run')}`}</span>
        <progress value={handled} max={Math.max(1, planned)} />
      </label>
      <p role="status">{`${format.counted(Number(done), 'run')} ${WORDS[action].done}${leftOut === '0' ? '' : `, left out ${leftOut}`}.`}</p>
      {error === undefined ? null : <Failure error={error} />}
      {isStuck ? (
        <p class="plan-line">
          <span>It did not finish. You can continue it: no run is changed twice.</span>
          <button type="button" class="button" disabled={isSending} onClick={goOn}>
            Go on
          </button>
        </p>
      ) : null}
      {outcome === 'unknown' ? (
        <p class="muted">
          You may close this; the service goes on. <a href="/flows/activity">The activity</a> shows how far it is.
        </p>
      ) : null}
    </>
  );
}

/** The progress in the activity list. */
interface Progress {
  readonly outcome: 'done' | 'refused' | 'failed' | 'unknown';
  readonly details: Readonly<Record<string, string>>;
}

/** Polls the progress of an action until it has ended. */
function useIntervention(id: string) {
  const [known, setKnown] = useState<{
    intervention: Progress | undefined;
    error: unknown;
    silentPolls: number;
  }>({
    intervention: undefined,
    error: undefined,
    silentPolls: 0,
  });
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let isCurrent = true;
    const poll = async () => {
      try {
        const { items } = await ask<PageOf<Progress>>(`/activity?id=${id}&includeTotal=true`);
        const [intervention] = items;
        if (!isCurrent) return;
        setKnown((last) => {
          const isSame = last.intervention?.details.done === intervention?.details.done;
          return { intervention, error: undefined, silentPolls: isSame ? last.silentPolls + 1 : 0 };
        });
        if (intervention?.outcome !== 'unknown') return;
      } catch (error) {
        if (isCurrent) setKnown((last) => ({ ...last, error, silentPolls: last.silentPolls + 1 }));
      }
      if (isCurrent) timer = setTimeout(() => void poll(), POLL_MS);
    };
    void poll();
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [id]);
  return known;
}

export const bulkPage: PagePart = {
  name: 'bulk',
  at: { runsTools: BulkActions },
  actions: {
    cancelRuns: 'Cancel many runs',
    rerunRuns: 'Run many again',
    retryRuns: 'Retry many runs',
  },
};
