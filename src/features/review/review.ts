import type { FastifyRequest } from 'fastify';
import type { WebhookInputs } from '../../manifest/webhook-inputs.ts';
import type { Delivery, DeliveryRecord, GateResult, Reason } from '../../model/delivery.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import type { EnforcementMode } from '../../model/manifest.ts';
import type { KeyRole } from '../../store/store.ts';
import { admissionTo, judgeByExpressions } from '../../webhooks/acceptance.ts';
import { REASONS } from '../../webhooks/answers.ts';
import { readContent, SIGNED_BEFORE, withContent } from '../../webhooks/content.ts';
import { calledUrl, type SignatureSettings } from '../../webhooks/gates/signature.ts';
import { fingerprintOf } from '../../webhooks/key-names.ts';
import { allResults, dryRunGates, type Judgement, withUnasked } from '../../webhooks/pipeline.ts';
import { type DeliveryReading, toDelivery } from '../../webhooks/read-delivery.ts';
import { strategyOf } from '../../webhooks/schemes/layout.ts';
import { resolveScheme } from '../../webhooks/schemes/resolve.ts';
import type { SignatureSpec } from '../../webhooks/schemes/spec.ts';
import type { PreparedTrigger } from '../../webhooks/triggers.ts';
import { isUnserved, judgeByCurrentTrigger, type ReviewServices, restore, triggerOf } from './judge-again.ts';
import { readReadiness } from './readiness.ts';
import { redeliver } from './redelivery.ts';
import { describeSignature, findMistakes } from './signature-mistakes.ts';
import { reviewStore } from './store.ts';

/** Queries about deliveries, and actions on refused ones. */
export function createReviewer(services: ReviewServices & DeliveryReading) {
  return {
    review: (record: DeliveryRecord) => reviewDelivery(record, services),
    findRepeated: (record: DeliveryRecord) => findRepeated(record, services),
    /** Reads the request as the delivery that it would be at the receive endpoint. */
    read: (request: FastifyRequest, idOrSlug: string): Delivery => {
      const query = /\?.*$/.exec(request.raw.url ?? '')?.[0] ?? '';
      return toDelivery(request, services, { path: `/flows/api/webhook/${encodeURIComponent(idOrSlug)}${query}` });
    },
    /** What would happen to a delivery that came now. */
    dryRun: (delivery: Delivery, idOrSlug: string) => dryRun(delivery, idOrSlug, services),
    redeliver: (record: DeliveryRecord, options: Parameters<typeof redeliver>[1]) =>
      redeliver(record, options, services),
    readiness: (asked: Parameters<typeof readReadiness>[0]) => readReadiness(asked, services),
  };
}

/** How the gates judged a stored delivery, with advice based on the trigger in force. */
export interface DeliveryReview extends Advice {
  readonly gateResults: readonly ConfiguredResult[];
}

/** What would happen to a delivery; nothing was created or used up. */
export interface DryRun extends DeliveryReview {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly mode: EnforcementMode;
  /** Status of the answer that would be sent. */
  readonly statusCode: number;
  readonly reason: Reason | null;
  readonly violations: readonly Reason[];
}

/** The gates' results for a stored delivery. Hints use its bytes and the trigger in force, so they may know more. */
async function reviewDelivery(record: DeliveryRecord, services: ReviewServices): Promise<DeliveryReview> {
  const trigger = triggerOf(record, services.triggers());
  const gateResults = withConfiguration(allResults(record), trigger?.trigger.inputs);
  if (record.violations.length === 0) {
    return { gateResults, hints: [], signature: comparisonOf(trigger, services.settings) };
  }
  if (isRepetition(record)) return { gateResults, hints: [REPETITION], signature: null };
  if (trigger === undefined) {
    return { gateResults, hints: [isUnserved(record, services) ? NOT_SERVED : NOWHERE], signature: null };
  }
  const restored = restore(record, trigger);
  if ('problem' in restored) return { gateResults, hints: [hintOf(restored.problem)], signature: null };
  const { delivery, unjudgeable } = restored;
  if (unjudgeable !== null) return { gateResults, hints: [hintOf(unjudgeable)], signature: null };
  const judgement = await dryRunGates(trigger.gates, delivery, trigger.mode);
  const advice = adviseOn(delivery, judgement, { trigger, settings: services.settings });
  // Found when the delivery arrived; its stored form is no longer decoded.
  const found = record.detail?.endsWith(SIGNED_BEFORE) === true ? [SIGNED_BEFORE] : [];
  return { gateResults, ...advice, hints: [...found, ...advice.hints] };
}

const NOWHERE = 'No trigger has this URL now. Check the last part of the URL, or deploy the flow.';
const NOT_SERVED =
  'Its trigger is not served here: GET /flows/api/attention says what it needs. Most publishers send the delivery again.';
const REPETITION =
  'It passed every gate. Its bytes were not stored again, because they equal those of a delivery that was already accepted.';

const hintOf = (problem: string) => `The delivery ${problem}.`;

/** Acknowledged, or a late original. A captured delivery can be sent forever, and must not fill the disk. */
function isRepetition({ body, mode, violations, outcome }: DeliveryRecord): boolean {
  return body === null && mode === 'Enforce' && (outcome ?? null) !== null && violations.includes('nonce_replayed');
}

/** Judges a delivery as if it came now. Undefined if no trigger has the address. */
async function dryRun(sent: Delivery, idOrSlug: string, services: ReviewServices): Promise<DryRun | undefined> {
  const sharing = services.triggers().findAll(idOrSlug);
  const [trigger] = sharing;
  if (trigger === undefined) return undefined;
  const delivery = withContent(sent, trigger);
  const judged = await judgeByCurrentTrigger(delivery, { trigger, sharing }, services);
  const { judgement, replayedRunId, ...current } = judged;
  const isClosed = sharing.every((each) => admissionTo(each, services) === 'disabled');
  const refusal = isClosed ? 'flow_disabled' : current.refusal;
  const replays: Reason[] = replayedRunId === undefined ? [] : ['nonce_replayed'];
  const others = refusal === null || judgement.violations.includes(refusal) || replays.includes(refusal);
  const violations = [...judgement.violations, ...replays, ...(others ? [] : [refusal])];
  const body = await readContent(delivery, trigger);
  const expressions =
    refusal === null && !('reason' in body) ? judgeByExpressions({ delivery, trigger, judgement, body }) : undefined;
  const results = [...withUnasked(trigger, judgement.gateResults), ...(expressions?.notices ?? [])];
  const { flowId, triggerKey } = trigger.trigger;
  const statusCode = refusal === null ? 200 : REASONS[refusal].statusCode;
  const bodyBytes = delivery.body.byteLength;
  return {
    flowId,
    triggerKey,
    mode: trigger.mode,
    statusCode,
    reason: violations[0] ?? null,
    violations,
    gateResults: withConfiguration(
      allResults({ gateResults: results, violations, bodyBytes, statusCode }),
      trigger.trigger.inputs,
    ),
    ...adviseOn(delivery, judgement, { trigger, settings: services.settings }),
  };
}

/** The first accepted delivery with the nonce of a repetition; null if this is not one, or no record is left. */
async function findRepeated(
  { id, flowId, triggerKey, receivedAt, violations, gateResults = [] }: DeliveryRecord,
  { store }: Pick<ReviewServices, 'store'>,
): Promise<{ readonly runId: string; readonly deliveryId: string | null } | null> {
  const { nonce, nonceExpiresAt } = gateResults.find(({ gate }) => gate === 'replay')?.facts ?? {};
  if (!violations.includes('nonce_replayed') || flowId === null || triggerKey === null) return null;
  if (typeof nonce !== 'string' || typeof nonceExpiresAt !== 'string') return null;
  const since = receivedAt - Math.max(0, Date.parse(nonceExpiresAt) - receivedAt);
  const runId = await store.of(reviewStore).findAcceptedNonce({ flowId, triggerKey, nonce, since });
  if (runId === undefined) return null;
  const deliveryId = (await store.findRun(runId))?.deliveryId ?? null;
  return deliveryId === id ? null : { runId, deliveryId };
}

/** A gate's result, with the gate's configuration in the trigger in force. */
interface ConfiguredResult extends GateResult {
  /** Fields of the trigger; absent fields use global defaults. Null for gates that no field configures. */
  readonly configured: JsonObject | null;
}

// Lists omit keys, and the public URL, because its query may contain a secret.
const FIELDS = {
  ip: ['webhookIpAllowList', 'webhookIpDenyList', 'webhookIpAllowListPreset', 'webhookIpAllowListPresets'],
  unverifiedRateLimit: ['webhookRateLimitUnverifiedPermitsPerSecond', 'webhookRateLimitUnverifiedBurstSize'],
  rateLimit: ['webhookRateLimitPermitsPerSecond', 'webhookRateLimitBurstSize', 'webhookRateLimitPerIp'],
  signature: [
    'webhookSignatureScheme',
    'webhookSignatureHeader',
    'webhookSignatureAlgorithm',
    'webhookSignatureEncoding',
    'webhookSignaturePrefix',
    'webhookSignedPayloadStrategy',
    'webhookCustomStrategyName',
  ],
  replay: [
    'webhookReplayToleranceSeconds',
    'webhookNonceHeader',
    'webhookTimestampHeader',
    'webhookTimestampValueKey',
    'webhookRequireTimestamp',
    'webhookDuplicateResponse',
  ],
} as const satisfies Readonly<Record<string, readonly (keyof WebhookInputs)[]>>;

/** A field of a trigger that is shown next to the result of its gate. */
export type ConfiguredField = (typeof FIELDS)[keyof typeof FIELDS][number];

const isConfigurable = (gate: string): gate is keyof typeof FIELDS => Object.hasOwn(FIELDS, gate);

function withConfiguration(results: readonly GateResult[], inputs: WebhookInputs | undefined): ConfiguredResult[] {
  return results.map((entry) => {
    const { gate } = entry;
    return { ...entry, configured: inputs === undefined || !isConfigurable(gate) ? null : pick(inputs, FIELDS[gate]) };
  });
}

function pick(inputs: WebhookInputs, fields: readonly ConfiguredField[]): JsonObject {
  const set = fields.flatMap((field): [string, Json][] => {
    const value = inputs[field];
    return value === undefined ? [] : [[field, value]];
  });
  return Object.fromEntries(set);
}

/** What a person sees in addition to the gates' results. */
interface Advice {
  /** Sentences that each say what would help. */
  readonly hints: readonly string[];
  /** What the signature covers, and the keys that it was compared with; null if no spec says this. */
  readonly signature: JsonObject | null;
}

/** Tries known mistakes on a delivery that every gate has just judged. */
function adviseOn(
  delivery: Delivery,
  judgement: Judgement,
  { trigger, settings }: { readonly trigger: PreparedTrigger; readonly settings: SignatureSettings },
): Advice {
  const { keys } = trigger;
  const { inputs } = trigger.trigger;
  const scheme = resolveScheme(settings.schemes, inputs, keys);
  const hints = generalHints(judgement, delivery);
  if (scheme?.kind !== 'spec') return { hints, signature: null };
  const { spec } = scheme;
  const { path, requestUrl } = delivery;
  const { url: publicUrl } = calledUrl({
    configuredUrl: inputs.webhookPublicUrl,
    baseUrl: settings.publicUrl,
    path,
    requestUrl,
  });
  const hasFailed = judgement.evidence.isVerified !== true;
  return {
    hints: hasFailed ? [...hints, ...findMistakes({ spec, keys, delivery, publicUrl })] : hints,
    signature: {
      scheme: spec.name,
      ...describe(spec, delivery, publicUrl),
      keys: fingerprintsOf(trigger),
    },
  };
}

/** What a trigger's signatures are compared with; null if with nothing, or by operator code. */
function comparisonOf(trigger: PreparedTrigger | undefined, { schemes }: SignatureSettings): JsonObject | null {
  if (trigger === undefined) return null;
  const scheme = resolveScheme(schemes, trigger.trigger.inputs, trigger.keys);
  return scheme?.kind === 'spec' ? { scheme: scheme.spec.name, keys: fingerprintsOf(trigger) } : null;
}

/** Each key in the form of its own scheme: the previous key may be a token although the current one is not. */
function fingerprintsOf({ namedKey, trigger }: PreparedTrigger): JsonObject {
  const shown = (role: KeyRole, other?: number) => {
    const key = namedKey(role, other);
    if (key === undefined) return null;
    return fingerprintOf(key) ?? (key.isSent ? 'a token, which is not shown' : 'too short to show');
  };
  const others = trigger.keys.others?.map((_, at) => shown('current', at));
  return { current: shown('current'), ...(others && { others }), previous: shown('previous') };
}

function generalHints({ violations, evidence }: Judgement, { clientIp }: Delivery): string[] {
  if (evidence.isVerified !== true) return [];
  const hints: string[] = [];
  if (violations.includes('ip_not_allowed')) {
    hints.push(
      `The signature is valid, but ${clientIp} is not on the allow list. If the publisher sends from there, add it to webhookIpAllowList; if it is your proxy, set SLUICE_TRUSTED_PROXIES.`,
    );
  }
  if (violations.includes('ip_denied')) {
    hints.push(
      `The signature is valid, but ${clientIp} is on the deny list. If the publisher sends from there, change webhookIpDenyList.`,
    );
  }
  if (violations.includes('timestamp_skew')) hints.push(skewHint(evidence.replaySkewMs));
  if (evidence.usedPreviousKey === true) {
    hints.push('The publisher still signs with the previous key. Enter the current one there.');
  }
  return hints;
}

function skewHint(skewMs = 0): string {
  const distance = `${Math.abs(skewMs) / 1000} s ${skewMs > 0 ? 'behind' : 'ahead of'} this clock`;
  const late = skewMs > 0 ? 'the delivery arrived late, or ' : '';
  return `The signature is valid, but its timestamp is ${distance}: ${late}the clock of the sender or of this host is off. Check the clocks, or raise webhookReplayToleranceSeconds.`;
}

function describe(spec: SignatureSpec, delivery: Delivery, publicUrl: string): JsonObject {
  try {
    return describeSignature({ spec, delivery, publicUrl });
  } catch {
    return { layout: strategyOf(spec), problem: 'the payload strategy could not build the signed bytes' };
  }
}
