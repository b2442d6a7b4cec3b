import { z } from 'zod';
import { field, isoTime, isoTimeOrNull, unknownId } from '../../dashboard/answer.ts';
import { ID_PARAMS, IN_ORDER, isWithin, parameter, SPAN } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import type { ApiRoutes } from '../../dashboard/services.ts';
import { sees, sightOf } from '../../dashboard/sight.ts';
import { isEdited } from '../../model/delivery.ts';
import type { Run } from '../../model/run.ts';
import type { RunDetail } from '../../store/store.ts';
import { runSchema } from './runs.ts';
import { runsStore, type SignalRecord, type StepEvent, type StepEvents } from './store.ts';

const runEventSchema = z
  .object({
    sequence: field.integer(),
    runId: field.id(),
    timestamp: field.time(),
    type: z.string(),
    stepKey: z.string().nullable(),
    message: field.content(z.string()),
  })
  .meta({ id: 'RunEvent' });

const relativeSchema = z.object({
  id: field.id(),
  status: runSchema.shape.status,
  startedAt: field.time(),
  completedAt: field.time().nullable(),
  flowName: z.string(),
  relation: z
    .enum(['rerun', 'failure', 'subFlow'])
    .describe(
      'rerun: one run repeats the other. failure: the failure of one started the other. subFlow: a step of one started the other.',
    ),
});
const lineageSchema = z.object({
  runId: field.id(),
  source: relativeSchema.nullable(),
  derived: z.array(relativeSchema),
  edited: z.boolean().describe('Its delivery has a body that a person edited, and no publisher signed.'),
});

/** Answers of these operations. */
export interface RunHistoryAnswers {
  readonly RunEvent: z.output<typeof runEventSchema>;
  readonly Lineage: z.output<typeof lineageSchema>;
}

/** The largest loop makes hundreds of thousands of events. */
const MAX_EVENTS = 10_000;

/** The events of a run, and its lineage. */
export const runHistoryRoutes: ApiRoutes = (app, services) => {
  eventsRoute(app, services);
  lineageRoute(app, services);
};

const eventsRoute: ApiRoutes = (app, { store }) => {
  app.get(
    '/flows/api/runs/:id/events',
    route('runs', {
      operationId: 'listRunEvents',
      limit: 'run',
      summary: 'What happened to a run, oldest first',
      params: ID_PARAMS,
      query: z
        .strictObject({
          take: parameter.wholeNumber({ min: 1, max: MAX_EVENTS, fallback: MAX_EVENTS }).meta({
            description: `How many of the newest events to return; ${MAX_EVENTS} by default. The sequence of the first one shows how many came before.`,
          }),
          ...SPAN,
        })
        .refine(...IN_ORDER),
      answer: z.array(runEventSchema),
      refusals: [404],
    }),
    async (request) => {
      const runId = request.params.id;
      const { take, ...span } = request.query;
      const isSpan = span.since !== undefined || span.until !== undefined;
      const limit = isSpan ? MAX_EVENTS : take;
      const [run, stepEvents, signals] = await Promise.all([
        store.findRun(runId),
        store.of(runsStore).listStepEvents({ runId, limit }),
        store.of(runsStore).listSignals(runId),
      ]);
      if (run === undefined) throw unknownId('run', runId);
      const events = runEvents({ run, stepEvents, signals }, limit);
      return isSpan ? events.filter(({ timestamp }) => isWithin(Date.parse(timestamp), span)).slice(-take) : events;
    },
  );
};

interface Happened {
  readonly at: number;
  /** Orders events of the same millisecond. */
  readonly rank: number;
  readonly type: string;
  readonly stepKey: string | null;
  readonly message: string;
}

interface RunHistory {
  readonly run: RunDetail;
  readonly stepEvents: StepEvents;
  readonly signals: readonly SignalRecord[];
}

/**
 * The newest `take` events of a run, oldest first. They are derived from the rows of the run, so they cannot contradict
 * the rows. `stepEvents` must hold at least `take` items if the run has that many.
 */
function runEvents({ run, stepEvents, signals }: RunHistory, take: number): z.output<typeof runEventSchema>[] {
  const others: Happened[] = [
    { at: run.startedAt, rank: 0, type: 'run.started', stepKey: null, message: `Started by ${run.triggerKey}` },
    ...signals.map(signalEvent),
    ...stopEvents(run),
  ];
  if (run.completedAt !== null) {
    const message = `Ended as ${run.status}`;
    others.push({ at: run.completedAt, rank: 9, type: 'run.completed', stepKey: null, message });
  }
  const total = others.length + stepEvents.total;
  const count = Math.min(take, total);
  return [...others, ...stepEvents.items.map(stepEvent)]
    .sort((a, b) => a.at - b.at || a.rank - b.rank)
    .slice(-count)
    .map(({ at, type, stepKey, message }, index) => ({
      sequence: total - count + index + 1,
      runId: run.id,
      timestamp: isoTime(at),
      type,
      stepKey,
      message,
    }));
}

/** Within one millisecond, starts come before ends: a short step starts and ends in the same one. */
const RANKS: Readonly<Record<StepEvent['kind'], number>> = {
  started: 3,
  completed: 4,
  failed: 4,
  retried: 4,
  skipped: 5,
};

function stepEvent({ stepKey, attempt, kind, at, reason }: StepEvent): Happened {
  const about = { at, rank: RANKS[kind], type: `step.${kind}`, stepKey };
  if (kind === 'skipped') return { ...about, message: reason ?? 'Skipped' };
  return { ...about, message: reason === null ? `Attempt ${attempt}` : `Attempt ${attempt}: ${reason}` };
}

function signalEvent({ name, deliveredAt, stepKey, deliveryId }: SignalRecord): Happened {
  const by = deliveryId === null ? '' : ` by the delivery ${deliveryId}`;
  return { at: deliveredAt, rank: 2, type: 'signal.received', stepKey, message: `Signal ${name}${by}` };
}

function stopEvents({ cancelRequestedAt, cancelReason, timedOutAt }: RunDetail): Happened[] {
  const events: Happened[] = [];
  if (cancelRequestedAt !== null) {
    const message = cancelReason ?? 'Cancelled without a reason';
    events.push({ at: cancelRequestedAt, rank: 1, type: 'run.cancelRequested', stepKey: null, message });
  }
  if (timedOutAt !== null) {
    events.push({
      at: timedOutAt,
      rank: 1,
      type: 'run.timedOut',
      stepKey: null,
      message: 'The time limit was reached',
    });
  }
  return events;
}

const lineageRoute: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/runs/:id/lineage',
    route('runs', {
      operationId: 'getRunLineage',
      limit: 'run',
      summary:
        'The run that this one repeats, or whose failure or step started it, and the runs that follow from this one',
      params: ID_PARAMS,
      answer: lineageSchema,
      refusals: [404],
    }),
    async (request) => {
      const runId = request.params.id;
      const lineage = await services.store.of(runsStore).findLineage(runId);
      if (lineage === undefined) throw unknownId('run', runId);
      const { run, source, derived } = lineage;
      const delivery = run.deliveryId === null ? undefined : await services.store.findDelivery(run.deliveryId);
      const sight = sightOf(request, services);
      const isSeen = ({ flowId }: Run) => sees(sight, flowId);
      return {
        runId,
        source: source === undefined || !isSeen(source) ? null : relativeView(source, relationOf(source, run)),
        derived: derived.filter(isSeen).map((each) => relativeView(each, relationOf(run, each))),
        edited: delivery !== undefined && isEdited(delivery),
      };
    },
  );
};

type Relative = z.output<typeof relativeSchema>;

/** A flow can be neither its own failure flow nor its own sub-flow, so only a rerun has the same flow as its source. */
function relationOf(source: Run, derived: Run): Relative['relation'] {
  if (source.flowId === derived.flowId) return 'rerun';
  return derived.triggerType === 'flow' ? 'subFlow' : 'failure';
}

function relativeView(run: Run, relation: Relative['relation']): Relative {
  const { id: runId, status, startedAt, completedAt, flowName } = run;
  return {
    id: runId,
    status,
    startedAt: isoTime(startedAt),
    completedAt: isoTimeOrNull(completedAt),
    flowName,
    relation,
  };
}
