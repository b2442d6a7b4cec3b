import type { Span } from '@opentelemetry/api';
import { UnfitClockError } from '../errors.ts';
import { ArrivingBody, OTHER_CHARSET } from '../expressions/trigger-body.ts';
import { type RefreshFlow, START_TRIES } from '../flows/engine.ts';
import { objectsOf } from '../manifest/trigger-objects.ts';
import { DAY_MS } from '../model/clock.ts';
import { DETAILS, type Delivery } from '../model/delivery.ts';
import type { TriggerName } from '../model/trigger-name.ts';
import type { AcceptResult, SharedOutcome, Store } from '../store/store.ts';
import {
  type AcceptanceServices,
  acceptDelivery,
  acceptShared,
  admissionTo,
  type ReadReception,
} from './acceptance.ts';
import { JSON_TYPE, methodNotAllowed, refused, type WebhookAnswer } from './answers.ts';
import { explained, keptContent, readContent, withoutEncoding } from './content.ts';
import { handshakeAnswers, isHandshake, permissionFor } from './handshakes.ts';
import { keepOfUnknown } from './kept-body.ts';
import { CLEAN, dryRunGates, runGates, withViolation } from './pipeline.ts';
import {
  keepDelivery,
  notStored,
  type OutcomeServices,
  type Reception,
  refuse,
  reportDelivery,
  type TriggeredReception,
} from './record.ts';
import type { AcceptedResponse } from './schemes/handshake.ts';
import { hasSameGates, type PreparedTrigger, type TriggerTable, type UnservedAddress } from './triggers.ts';

/** Answers accepted deliveries with what their runs say. One part implements it. */
export interface RunAnswers {
  /**
   * The answer from the committed run; undefined for the fixed answer. Never rejects. Every sender gets the same
   * answer, so it does not reveal whether a signature was right.
   */
  wait(reception: TriggeredReception, runId: string): Promise<WebhookAnswer | undefined>;
  /** Ends all waits, and allows no new ones. */
  end(): void;
}

export interface ReceiverServices extends AcceptanceServices, Omit<OutcomeServices, 'clock'> {
  readonly store: Store;
  /** The table in force; a deploy puts a new one in its place. */
  readonly triggers: () => TriggerTable;
  readonly refresh: RefreshFlow;
  /** Loads other processes' changes to the flows behind a name; yields whether there were none. Absent if alone. */
  readonly confirm: ((name: string) => Promise<boolean>) | undefined;
  /** Absent if no part has runs answer. */
  readonly runAnswers: Pick<RunAnswers, 'wait'> | undefined;
}

interface Receiver {
  /** Judges a delivery, accepts or refuses it, and says what to answer. */
  delivery(delivery: Delivery, idOrSlug: string, span: Span): Promise<WebhookAnswer>;
  /** Refuses a body over the cap before any gate, in every mode. */
  tooLarge(delivery: Delivery, idOrSlug: string, span: Span): Promise<WebhookAnswer>;
  /** Refuses a delivery that arrived after a stop had begun; its record says so. */
  stopping(delivery: Delivery, idOrSlug: string, span: Span): Promise<WebhookAnswer>;
  /** Refuses and keeps nothing because the machine's clock disagrees: gates and log would work with a wrong time. */
  unfit(delivery: Delivery, idOrSlug: string, span: Span): Promise<WebhookAnswer>;
  /** Answers CloudEvents publishers that ask to deliver, without gates or record; undefined if the trigger answers. */
  permission(headers: Delivery['headers'], idOrSlug: string): Promise<WebhookAnswer | undefined>;
  /** Refuses a delivery because no memory is left for its body: the body was not read to its end and cannot be kept. */
  overloaded(): WebhookAnswer;
}

/**
 * The walk of a delivery: find the trigger, run its gates, read the body, plan the run, commit it all at once, answer.
 * Each stage either hands the delivery on or refuses it; nothing is written before the one commit.
 */
export function receiver(services: ReceiverServices): Receiver {
  const concluding = { ...services, answerHandshake: handshakeAnswers(services) };
  /** A reception that no gate judges. */
  const unjudged = (delivery: Delivery, idOrSlug: string, span: Span): Reception => {
    const found = addressed(services.triggers().findAll(idOrSlug));
    const kept = keptBy(found.trigger, delivery);
    return { delivery: kept, span, judgement: CLEAN, startedAt: services.clock.monotonic(), ...found };
  };
  return {
    async delivery(sent, idOrSlug, span) {
      const startedAt = services.clock.monotonic();
      let judged: TriggeredReception | undefined;
      let isConfirmed = services.confirm === undefined;
      // The gates may take seconds. If there is a deploy in that time, the old trigger decides nothing.
      for (let left = START_TRIES; left > 0; left -= 1) {
        const triggers = services.triggers();
        const found = triggers.findAll(idOrSlug);
        const { trigger, sharing } = addressed(found);
        const delivery = trigger?.readsContent === true ? await withoutEncoding(sent) : sent;
        const kept = keptBy(trigger, delivery);
        const judgedBy = services.confirm && triggers.judgedBy(idOrSlug);
        const arrived: Reception = { delivery: kept, judgedBy, trigger, sharing, span, judgement: CLEAN, startedAt };
        // Before any gate: a request that is not a delivery must not use up the limits of deliveries.
        const isForeign = trigger !== undefined && delivery.method !== 'POST' && !isHandshake(delivery, trigger);
        // Earlier verdicts still count if the deploy did not change the gates.
        judged =
          judged !== undefined && trigger !== undefined && hasSameGates(judged.trigger, trigger)
            ? { ...judged, judgedBy, trigger, sharing }
            : undefined;
        const isRefused = isForeign || found.every((each) => admissionTo(each, services) === 'disabled');
        if (isRefused && isConfirmed) {
          if (trigger === undefined) return refuseUnfound(arrived, triggers.findUnserved(idOrSlug), services);
          if (isForeign) return methodNotAllowed(trigger.handshakes.map(({ method }) => method));
          return refuse(judged ?? arrived, 'flow_disabled', services);
        }
        if (trigger !== undefined && !isRefused) {
          if (judged === undefined) {
            const judge = delivery.method === 'POST' ? runGates : dryRunGates;
            const judgement = await judge(trigger.gates, delivery, trigger.mode);
            judged = { ...arrived, trigger, judgement };
            if (delivery.content !== undefined) judged = await explained(judged, delivery);
            if (services.triggers() !== triggers) continue;
          }
          // A deploy elsewhere may change the answer: confirm refusals first; the store compares what it accepts.
          if (isConfirmed || (judged.judgement.refusal === null && delivery.method === 'POST')) {
            const answer = await conclude(judged, concluding, isConfirmed);
            if (answer !== undefined) return answer;
          }
        }
        try {
          if (services.confirm !== undefined) isConfirmed = await services.confirm(idOrSlug);
          else for (const each of found) await services.refresh(each.trigger.flowId);
        } catch (error) {
          return notStored(judged ?? arrived, error, services);
        }
      }
      const judgement = { ...CLEAN, detail: 'the flow kept changing while a run was about to start' };
      return refuse({ ...unjudged(sent, idOrSlug, span), judgement, startedAt }, 'store_unavailable', services);
    },
    tooLarge(...arrived) {
      return refuse(unjudged(...arrived), 'body_too_large', services);
    },
    stopping(...arrived) {
      const judgement = { ...CLEAN, detail: 'the service was stopping' };
      return refuse({ ...unjudged(...arrived), judgement }, 'store_unavailable', services);
    },
    async unfit(...arrived) {
      return notStored(unjudged(...arrived), new UnfitClockError(), services);
    },
    async permission(headers, idOrSlug) {
      await services.confirm?.(idOrSlug);
      const trigger = services.triggers().find(idOrSlug);
      if (trigger === undefined) return refused('unknown_flow');
      if (trigger.handshakes.some(({ method }) => method === 'OPTIONS')) return undefined;
      return permissionFor(headers) ?? methodNotAllowed(trigger.handshakes.map(({ method }) => method));
    },
    overloaded() {
      const deliveryId = services.newId();
      services.metrics.webhookRejected.inc({ flow: 'none', reason: 'store_unavailable' });
      const cause = 'bodies_in_flight';
      services.logger.warn(
        { cause, deliveryId },
        'a delivery was not read: the bodies in flight leave no memory for it',
      );
      return { ...refused('store_unavailable'), deliveryId };
    },
  };
}

/** The delivery as everyone but the gates of its trigger may see it. */
export function keptBy(trigger: PreparedTrigger | undefined, delivery: Delivery): Delivery {
  const keep = trigger === undefined ? keepOfUnknown : trigger.keepBody;
  if (keep === undefined) return delivery;
  if (delivery.headers['content-encoding'] === undefined) return { ...delivery, body: keep(delivery.body) };
  return keptContent(delivery, keep);
}

/** The trigger whose gates judge, and all triggers that share its slug. */
function addressed(found: readonly PreparedTrigger[]): Pick<Reception, 'trigger' | 'sharing'> {
  return { trigger: found[0], sharing: found.length > 1 ? found : undefined };
}

/** 503 if the flow has the trigger but this service cannot serve it: the publisher should send the delivery again. */
function refuseUnfound(
  arrived: Reception,
  unserved: UnservedAddress | undefined,
  services: OutcomeServices,
): Promise<WebhookAnswer> {
  if (unserved === undefined) return refuse(arrived, 'unknown_flow', services);
  const judgement = { ...arrived.judgement, detail: unserved.why };
  return refuse({ ...arrived, unserved, judgement }, 'flow_unreadable', services);
}

/** The answer, now or later; undefined if a deploy came in between. */
type Answering = WebhookAnswer | undefined | Promise<WebhookAnswer | undefined>;

/** Acts on the verdict of the gates; undefined also if the store must be asked first. */
function conclude(
  judged: TriggeredReception,
  services: ReceiverServices & { readonly answerHandshake: ReturnType<typeof handshakeAnswers> },
  isConfirmed: boolean,
): Answering {
  if (judged.trigger.handshakes.length === 0) return concludeDelivery(judged, services);
  return services.answerHandshake(judged, isConfirmed, () => concludeDelivery(judged, services));
}

function concludeDelivery(judged: TriggeredReception, services: ReceiverServices): Answering {
  const { delivery, trigger, judgement } = judged;
  if (judgement.refusal !== null) return refuse(judged, judgement.refusal, services);
  if (delivery.method !== 'POST') return methodNotAllowed();
  const contentType = delivery.headers['content-type'];
  if (delivery.content === undefined && !OTHER_CHARSET.test(contentType ?? '')) {
    const document = trigger.documentIn(delivery.headers);
    return acceptRead(judged, new ArrivingBody(delivery.body, { contentType, document }), services);
  }
  return readContent(delivery, trigger).then((body) =>
    'reason' in body ? refuse(judged, body, services) : acceptRead(judged, body, services),
  );
}

function acceptRead(judged: TriggeredReception, body: ArrivingBody, services: ReceiverServices): Answering {
  if (body.isMalformed()) return refuse({ ...judged, body }, 'invalid_json', services);
  return accept({ ...judged, body }, services);
}

/** Commits a delivery, and answers once for all triggers at its address. */
async function accept(reception: ReadReception, services: ReceiverServices): Promise<WebhookAnswer | undefined> {
  const { delivery, trigger, judgement, sharing } = reception;
  let result: ReturnType<typeof committed>;
  try {
    const stored =
      sharing === undefined ? acceptDelivery(reception, services) : acceptShared({ ...reception, sharing }, services);
    result = committed(await stored, trigger);
  } catch (error) {
    return notStored(reception, error, services);
  }
  if (result.kind === 'outdated') return undefined;
  if (result.kind === 'conflict') return refuse(reception, 'idempotency_conflict', services);
  if (result.kind === 'replayed') return answerReplay(reception, result, services);
  const { outcomes, lead, runId } = result;
  const known = result.isReplay ? withViolation(judgement, 'nonce_replayed') : judgement;
  reportDelivery(known === judgement ? reception : { ...reception, judgement: known }, runId, services);
  for (const { flowId, kind } of outcomes) countOutcome(flowId, kind, services);
  const kind = lead.kind === 'closed' ? 'filtered' : lead.kind;
  const runs = sharing && runsOf(outcomes, lead);
  const answered = outcomes.flatMap((outcome) => outcome.answered ?? []);
  const fixed = accepted({ runId, runs, answered, deliveryId: delivery.id, kind }, trigger.acceptedResponse);
  for (const [at, outcome] of outcomes.entries()) {
    const own = sharing?.[at] ?? trigger;
    if (!own.isAnsweredByRun || outcome.kind !== 'accepted' || outcome.runId === null) continue;
    const answer = await services.runAnswers?.wait({ ...reception, trigger: own }, outcome.runId);
    if (answer !== undefined) return answer;
  }
  return fixed;
}

/** The outcome of a delivery at one of its triggers. */
interface Outcome extends TriggerName {
  readonly runId: string | null;
  readonly kind: SharedOutcome['kind'] | 'coalesced';
  readonly answered?: number | undefined;
}

interface Committed {
  readonly kind: 'committed';
  readonly outcomes: readonly Outcome[];
  /** The outcome that the record and the answer are about. */
  readonly lead: Outcome;
  readonly runId: string | null;
  readonly isReplay: boolean;
}

function committed(
  result: Awaited<ReturnType<typeof acceptDelivery | typeof acceptShared>>,
  { trigger: { flowId, triggerKey } }: PreparedTrigger,
): Committed | Extract<AcceptResult, { kind: 'conflict' | 'replayed' }> | { readonly kind: 'outdated' } {
  switch (result.kind) {
    case 'outdated':
    case 'conflict':
    case 'replayed':
      return result;
    case 'repeated':
      throw new Error('A delivery that no person delivered again was.');
    case 'shared': {
      const lead = result.outcomes[result.lead];
      if (lead === undefined) throw new Error('A shared delivery has no trigger.');
      return { ...result, kind: 'committed', lead };
    }
    default: {
      const { kind, isReplay } = result;
      const answered = kind === 'answered' ? result.answered : undefined;
      const lead = { flowId, triggerKey, kind, answered, runId: kind === 'filtered' ? null : result.runId };
      return { kind: 'committed', outcomes: [lead], lead, runId: lead.runId, isReplay };
    }
  }
}

/** The runs of a shared delivery; the run in its record comes first. */
function runsOf(outcomes: readonly Outcome[], lead: Outcome): readonly AnsweredRun[] {
  const ordered = [lead, ...outcomes.filter((outcome) => outcome !== lead)];
  return ordered.flatMap(({ flowId, triggerKey, runId }) => (runId === null ? [] : [{ flowId, triggerKey, runId }]));
}

type AnsweredRun = TriggerName & { readonly runId: string };

/** A nonce that was accepted before: 409, or the first run's id if the trigger acknowledges honest retries. */
async function answerReplay(
  reception: TriggeredReception,
  replay: Extract<AcceptResult, { kind: 'replayed' }>,
  services: ReceiverServices,
): Promise<WebhookAnswer> {
  const { delivery, trigger } = reception;
  const isAcknowledged = trigger.trigger.inputs.webhookDuplicateResponse === 'acknowledge' && replay.hasSameBody;
  const { runId } = replay;
  if (!isAcknowledged) {
    const lateFor = await fetchedRun(runId, reception, services);
    const judgement = lateFor === undefined ? reception.judgement : { ...reception.judgement, detail: LATE };
    return refuse({ ...reception, judgement, lateFor }, 'nonce_replayed', services);
  }
  const kind = runId === null && trigger.signals === undefined ? 'filtered' : 'duplicate';
  const repeated = { ...reception, judgement: withViolation(reception.judgement, 'nonce_replayed') };
  await keepDelivery(repeated, { statusCode: 200, runId, isDuplicate: true }, services);
  reportDelivery(reception, null, services);
  countOutcome(trigger.trigger.flowId, kind, services);
  return accepted({ runId, deliveryId: delivery.id, kind }, trigger.acceptedResponse);
}

function countOutcome(flow: string, kind: Outcome['kind'], { metrics }: ReceiverServices): void {
  if (kind === 'duplicate') metrics.webhookDuplicate.inc({ flow });
  if (kind === 'filtered') metrics.webhookFiltered.inc({ flow });
}

/** Publishers that expect a particular answer get it; all others get the ids. */
function accepted(
  ids: {
    readonly runId: string | null;
    readonly deliveryId: string;
    readonly kind: Exclude<Outcome['kind'], 'closed'>;
    readonly runs?: readonly AnsweredRun[] | undefined;
    /** How many steps it answered, at each trigger that signals. */
    readonly answered?: readonly number[];
  },
  response: AcceptedResponse | undefined,
): WebhookAnswer {
  const { runId, deliveryId, kind, runs, answered = [] } = ids;
  if (response !== undefined) return { statusCode: 200, ...response, deliveryId };
  const count = answered.length === 0 ? undefined : answered.reduce((sum, each) => sum + each);
  const told = { runId: runId ?? undefined, answered: count, deliveryId, runs };
  const body = JSON.stringify(kind === 'accepted' || kind === 'answered' ? told : { ...told, [kind]: true });
  return { statusCode: 200, contentType: JSON_TYPE, body, deliveryId };
}

const LATE = 'it came after it was fetched from the log of the publisher';

/** How long publishers repeat a delivery that failed. */
const LATE_MS = 3 * DAY_MS;

/** The run of a repeated nonce, if the first delivery was fetched because it had not come: then this is no attack. */
async function fetchedRun(
  runId: string | null,
  { delivery, trigger: { trigger } }: TriggeredReception,
  { store }: { readonly store: Pick<Store, 'findRun' | 'findDelivery'> },
): Promise<string | undefined> {
  if (runId === null || !objectsOf(trigger).some(([, { fetches }]) => fetches)) return undefined;
  // The delivery is refused in any case; if its run cannot be read now, it counts as a replay.
  const run = await store.findRun(runId).catch(() => undefined);
  const first = run?.deliveryId && (await store.findDelivery(run.deliveryId).catch(() => undefined));
  const isFetched = first && first.detail?.startsWith(DETAILS.reconciled) === true;
  return isFetched && delivery.receivedAt - first.receivedAt < LATE_MS ? runId : undefined;
}
