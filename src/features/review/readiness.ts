import type { Reason } from '../../model/delivery.ts';
import type { EnforcementMode } from '../../model/manifest.ts';
import { sameTrigger } from '../../model/trigger-name.ts';
import type { EventName } from '../../telemetry/events.ts';
import { isOfGate, REASONS } from '../../webhooks/answers.ts';
import { missingKey } from '../../webhooks/learned-keys.ts';
import type { PreparedTrigger } from '../../webhooks/triggers.ts';
import type { ReviewServices } from './judge-again.ts';
import { type DeliveryGroup, reviewStore } from './store.ts';

/** Whether publishers of a trigger would notice the switch to Enforce. */
export interface Readiness {
  readonly flowId: string;
  readonly flowName: string;
  readonly triggerKey: string;
  readonly mode: EnforcementMode;
  /** Arrival of the first delivery examined, in milliseconds; null if there is none. */
  readonly watchedSince: number | null;
  readonly total: number;
  readonly clean: number;
  /** Deliveries that Enforce refused or would have refused. */
  readonly refused: number;
  readonly gates: readonly GateReadiness[];
  readonly safeToEnforce: boolean;
  /** The reason, in a sentence. */
  readonly reason: string;
}

interface GateReadiness {
  readonly gate: string;
  readonly isConfigured: boolean;
  readonly refused: number;
  readonly reasons: readonly {
    readonly reason: Reason;
    readonly count: number;
    readonly examples: readonly string[];
  }[];
}

/** What Enforce would have done since then, for each trigger. */
export async function readReadiness(
  { since, flowId }: { readonly since: number; readonly flowId: string | undefined },
  { store, triggers }: Pick<ReviewServices, 'store' | 'triggers'>,
): Promise<Readiness[]> {
  const groups = await store.of(reviewStore).summariseDeliveries({ since, flowId });
  const asked = triggers()
    .list()
    .filter(({ trigger }) => flowId === undefined || trigger.flowId === flowId);
  return asked.map((trigger) => judgeReadiness(trigger, groups));
}

const MAX_EXAMPLES = 5;

const GATE_BY_EVENT: Readonly<Partial<Record<EventName, string>>> = {
  WebhookIpDenied: 'ip',
  WebhookRateLimited: 'rateLimit',
  WebhookSignatureRejected: 'signature',
  WebhookReplayRejected: 'replay',
  WebhookBodyRejected: 'bodySchema',
};

/** Under Enforce, a delivery stops at the first failure, so the results of later gates are unknown. */
function judgeReadiness(prepared: PreparedTrigger, groups: readonly DeliveryGroup[]): Readiness {
  const { trigger, mode } = prepared;
  const own = groups.filter((group) => sameTrigger(group, trigger));
  // Reasons of the receive endpoint itself refuse in every mode, so Enforce does not change them.
  const failed = own.filter(({ violations }) => violations.some(isOfGate));
  const total = sum(own);
  const refused = sum(failed);
  const known = {
    flowId: trigger.flowId,
    flowName: trigger.flowName,
    triggerKey: trigger.triggerKey,
    mode,
    watchedSince: own.length === 0 ? null : Math.min(...own.map(({ firstAt }) => firstAt)),
    total,
    clean: sum(own.filter(({ violations }) => violations.length === 0)),
    refused,
    gates: prepared.chain.map((gate) => gateReadiness(gate, prepared, failed)),
  };
  return { ...known, ...verdict(prepared, total, refused) };
}

function verdict(
  { gates, mode, lacksKey, keySlot }: PreparedTrigger,
  total: number,
  refused: number,
): Pick<Readiness, 'safeToEnforce' | 'reason'> {
  if (gates.length === 0) return no('no gate is configured: there is nothing to enforce');
  if (lacksKey) return no(`the scheme has ${missingKey(keySlot)}: Enforce would refuse everything`);
  if (mode === 'Enforce') return { safeToEnforce: true, reason: 'it is already enforced' };
  if (total === 0) return no('no delivery arrived in this time, so there is no data');
  if (refused > 0) return no(`Enforce would have refused ${refused} of ${total} deliveries`);
  return { safeToEnforce: true, reason: `Enforce would have refused none of ${total} deliveries` };
}

function no(reason: string) {
  return { safeToEnforce: false, reason };
}

function gateReadiness(gate: string, { gates }: PreparedTrigger, failed: readonly DeliveryGroup[]): GateReadiness {
  const reasons = [...new Set(failed.flatMap(({ violations }) => violations))].filter((it) => gateOf(it) === gate);
  const ofGate = failed.filter(({ violations }) => violations.some((reason) => gateOf(reason) === gate));
  return {
    gate,
    isConfigured: gates.some(({ name }) => name === gate),
    refused: sum(ofGate),
    reasons: reasons.map((reason) => {
      const groups = failed.filter(({ violations }) => violations.includes(reason));
      const examples = groups.flatMap(({ firstId, lastId }) => [lastId, firstId]);
      return { reason, count: sum(groups), examples: [...new Set(examples)].slice(0, MAX_EXAMPLES) };
    }),
  };
}

/** The gate that gives a reason; an operator's gate counts as the built-in gate with the same reason. */
function gateOf(reason: Reason): string | undefined {
  if (reason === 'unverified_rate_limited') return 'unverifiedRateLimit';
  const { event } = REASONS[reason];
  return event === undefined ? undefined : GATE_BY_EVENT[event];
}

function sum(groups: readonly DeliveryGroup[]): number {
  return groups.reduce((total, { count }) => total + count, 0);
}
