import { StoreUnavailableError } from '../../errors.ts';
import { ArrivingBody } from '../../expressions/trigger-body.ts';
import { type RefreshFlow, START_TRIES } from '../../flows/engine.ts';
import { type Delivery, HEADER_NAME, type Reason } from '../../model/delivery.ts';
import { isStorable } from '../../model/text.ts';
import { sameTrigger, type TriggerName } from '../../model/trigger-name.ts';
import type { DeliveryNames, Store } from '../../store/store.ts';
import {
  type AcceptanceServices,
  acceptDelivery,
  admissionTo,
  judgeByExpressions,
  type ReadReception,
} from '../../webhooks/acceptance.ts';
import { isHandshake } from '../../webhooks/handshakes.ts';
import { type Judgement, judgeFetched, withViolation } from '../../webhooks/pipeline.ts';
import { keptBy } from '../../webhooks/receive.ts';
import { type OutcomeServices, refuse, reportDelivery, type TriggeredReception } from '../../webhooks/record.ts';
import { hasSameGates, type PreparedTrigger, pathOfWebhook, type TriggerTable } from '../../webhooks/triggers.ts';
import type { SentDelivery } from './source.ts';

export interface FetchedServices extends AcceptanceServices, Omit<OutcomeServices, 'clock' | 'store'> {
  readonly store: Pick<Store, 'recordDelivery' | 'areAccepted'>;
  readonly triggers: () => TriggerTable;
  readonly refresh: RefreshFlow;
  /** Absolute base URL that publishers call. */
  readonly publicUrl?: string | undefined;
  readonly maxBodyBytes: number;
}

/** Outcome of a fetched delivery. */
export type FetchedOutcome =
  | { readonly kind: 'accepted'; readonly runId: string }
  /** Nothing is left to do: it was known, an expression keeps it from starting a run, or it is a handshake. */
  | { readonly kind: 'settled' }
  | { readonly kind: 'refused'; readonly reason: Reason }
  /** May be accepted later: the flow takes no deliveries now, or its verification is unavailable. */
  | { readonly kind: 'not now' };

export function findTrigger(name: TriggerName, triggers: TriggerTable): PreparedTrigger | undefined {
  return triggers.list().find(({ trigger }) => sameTrigger(trigger, name));
}

/**
 * Accepts a delivery from a publisher's log as if it had been sent: through the gates of the currently deployed trigger
 * (except those about sender and time) and the usual acceptance. It keeps the names of the original.
 */
export async function acceptFetched(
  name: TriggerName,
  sent: SentDelivery,
  services: FetchedServices,
): Promise<FetchedOutcome> {
  for (let left = START_TRIES; left > 0; left -= 1) {
    const outcome = await judgeAndAccept(name, sent, services);
    if (outcome !== undefined) return outcome;
    await services.refresh(name.flowId);
  }
  throw new StoreUnavailableError(`the flow ${name.flowId} kept changing while a delivery was reconciled`);
}

/** Undefined if a deploy came in between. */
async function judgeAndAccept(
  name: TriggerName,
  sent: SentDelivery,
  services: FetchedServices,
): Promise<FetchedOutcome | undefined> {
  const { clock, triggers } = services;
  const startedAt = clock.monotonic();
  const table = triggers();
  const trigger = findTrigger(name, table);
  if (trigger?.trigger.reconcile === undefined || admissionTo(trigger, services) === 'disabled')
    return { kind: 'not now' };
  const { from } = trigger.trigger.reconcile;
  const { delivery, judgement } = await judge(sent, { trigger, table }, services);
  if (isHandshake(delivery, trigger)) return { kind: 'settled' };
  const now = findTrigger(name, triggers());
  if (now === undefined || !hasSameGates(now, trigger)) return undefined;
  const kept = keptBy(trigger, delivery);
  const body = new ArrivingBody(kept.body, {
    contentType: kept.headers['content-type'],
    document: trigger.documentIn(kept.headers),
  });
  const reception: ReadReception = {
    ...{ delivery: kept, trigger: now, judgement, span: undefined, startedAt, body, reconciledFrom: from },
  };
  const refuseFor = async (reason: Reason): Promise<FetchedOutcome> => {
    if (reason === 'verification_unavailable') return { kind: 'not now' };
    await refuse(reception, reason, services);
    return { kind: 'refused', reason };
  };
  if (delivery.body.byteLength > services.maxBodyBytes) return refuseFor('body_too_large');
  if (await isKnown(reception, services)) return { kind: 'settled' };
  if (judgement.refusal !== null) return refuseFor(judgement.refusal);
  if (body.isMalformed()) return refuseFor('invalid_json');
  const result = await acceptDelivery(reception, services);
  if (result.kind === 'outdated') return undefined;
  if (result.kind === 'conflict') return refuseFor('idempotency_conflict');
  if (result.kind === 'replayed') return { kind: 'settled' };
  const known = result.isReplay ? withViolation(judgement, 'nonce_replayed') : judgement;
  reportDelivery({ ...reception, judgement: known }, result.kind === 'filtered' ? null : result.runId, services);
  return result.kind === 'filtered' || result.kind === 'duplicate' || result.kind === 'answered'
    ? { kind: 'settled' }
    : { kind: 'accepted', runId: result.runId };
}

/** Asks the gates which of the possible bodies was signed; if none is verified, takes the first. */
async function judge(
  { headers, bodies }: SentDelivery,
  { trigger, table }: { readonly trigger: PreparedTrigger; readonly table: TriggerTable },
  { clock, newId, publicUrl }: FetchedServices,
): Promise<{ readonly delivery: Delivery; readonly judgement: Judgement }> {
  const path = pathOfWebhook(trigger, table) ?? '/';
  const fit = Object.entries(headers).filter(
    ([name, value]) => HEADER_NAME.test(name) && isStorable(value) && !/[\r\n]/.test(value),
  );
  const common = {
    id: newId(),
    receivedAt: clock.now(),
    method: 'POST',
    path,
    requestUrl: `${publicUrl?.replace(/\/$/, '') ?? 'https://localhost'}${path}`,
    headers: Object.fromEntries(fit.map(([name, value]) => [name.toLowerCase(), value])),
    // No client sent it, so it has no address.
    clientIp: '0.0.0.0',
  };
  const { mode, gates } = trigger;
  const takesUnsigned = mode !== 'Enforce' || trigger.trigger.reconcile?.acceptUnsigned === true;
  let first: { readonly delivery: Delivery; readonly judgement: Judgement } | undefined;
  for (const body of bodies) {
    const delivery = { ...common, body };
    const judgement = await judgeFetched(gates, delivery, { mode, takesUnsigned });
    first ??= { delivery, judgement };
    if (judgement.evidence.isVerified === true) return { delivery, judgement };
    if (trigger.schemeName === null) break;
  }
  if (first === undefined) throw new Error('A fetched delivery has no body.');
  return first;
}

/**
 * Names stored by an unverified original count here too, although they never block a verified delivery. An unverified
 * delivery has no event id, so its bytes name it.
 */
async function isKnown(reception: TriggeredReception, { store, clock }: FetchedServices): Promise<boolean> {
  const { delivery, trigger, judgement, body } = reception;
  const { flowId, triggerKey } = trigger.trigger;
  const expressions = body && judgeByExpressions({ delivery, trigger, judgement, body });
  const { evidence } = judgement;
  const isUnverified = trigger.schemeName !== null && evidence.isVerified !== true;
  const nonce = evidence.nonce ?? (isUnverified ? trigger.nameDelivery(delivery, evidence) : undefined);
  const name: DeliveryNames = { eventId: expressions?.eventId, nonce };
  const [isAccepted] = await store.areAccepted({ flowId, triggerKey, at: Math.floor(clock.ledger()), names: [name] });
  return isAccepted === true;
}
