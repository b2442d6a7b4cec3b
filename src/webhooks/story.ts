import type { DeliveryRecord, GateStory, Reason } from '../model/delivery.ts';
import type { Json, JsonObject } from '../model/json.ts';
import type { Evidence, Verdict } from './gate.ts';

// What a sender wrote is kept to recognise it, not to carry it.
const MAX_TEXT_LENGTH = 600;

/** What one gate did about a delivery, as it is kept and shown. */
export function tell(gate: string, verdict: Verdict): GateStory {
  const facts = verdict.evidence === undefined ? {} : factsOf(gate, verdict.evidence);
  if (verdict.passed) return { gate, outcome: 'passed', reason: null, detail: null, facts };
  return { gate, outcome: 'failed', reason: verdict.reason, detail: verdict.detail ?? null, facts };
}

export function notAsked(gate: string, outcome: 'not evaluated' | 'not configured'): GateStory {
  return { gate, outcome, reason: null, detail: null, facts: {} };
}

/** The story with a word on every gate of the chain, in its order; gates beyond the chain stay at the end. */
export function withUnconfigured(chain: readonly string[], story: readonly GateStory[]): GateStory[] {
  const known = new Map(story.map((entry) => [entry.gate, entry]));
  const inChain = chain.map((gate) => known.get(gate) ?? notAsked(gate, 'not configured'));
  return [...inChain, ...story.filter(({ gate }) => !chain.includes(gate))];
}

/** Whether a nonce is new is answered by the acceptance, behind the gate that named it. */
export function withReplay(story: readonly GateStory[], isReplay: boolean): GateStory[] {
  return story.map((entry) =>
    isReplay && entry.gate === 'replay' && entry.outcome === 'passed'
      ? { ...entry, outcome: 'failed', reason: 'nonce_replayed' }
      : entry,
  );
}

/** The gates' story with what comes before and behind them: the size, the address, and whether the body can be read. */
export function wholeStory({
  story = [],
  violations,
  bodyBytes,
  statusCode,
}: Pick<DeliveryRecord, 'story' | 'violations' | 'bodyBytes' | 'statusCode'>): GateStory[] {
  const isTooLarge = violations.includes('body_too_large');
  const misled = violations.find((reason) => reason === 'unknown_flow' || reason === 'flow_disabled');
  const unreadable = violations.find((reason) => reason === 'invalid_json');
  return [
    stage('bodyCap', isTooLarge ? 'body_too_large' : undefined, { bodyBytes }),
    isTooLarge ? notAsked('address', 'not evaluated') : stage('address', misled, {}),
    ...withReplay(story, violations.includes('nonce_replayed')),
    unreadable === undefined && statusCode >= 400 ? notAsked('body', 'not evaluated') : stage('body', unreadable, {}),
  ];
}

function stage(gate: string, reason: Reason | undefined, facts: JsonObject): GateStory {
  return { gate, outcome: reason === undefined ? 'passed' : 'failed', reason: reason ?? null, detail: null, facts };
}

/**
 * What the gate alone found, by name: what else it hands to later gates is not for a reader, and when the sender may come
 * again is told to traces alone.
 */
function factsOf(gate: string, { facts, nonce, signedTimestamp, ...found }: Evidence): JsonObject {
  const { scheme, isVerified, usedPreviousKey, signedBytesSha256, replaySkewMs } = found;
  const told: Readonly<Record<string, Json | undefined>> = {
    scheme,
    isVerified,
    usedPreviousKey,
    signedBytesSha256,
    replaySkewMs,
    signedTimestamp: signedTimestamp?.text,
    nonce: nonce?.value,
    nonceExpiresAt: nonce && new Date(nonce.expiresAt).toISOString(),
    ...facts?.[gate],
  };
  const kept = Object.entries(told).filter((entry): entry is [string, Json] => entry[1] !== undefined);
  return Object.fromEntries(kept.map(([name, value]) => [name, cut(value)]));
}

function cut(value: Json): Json {
  return typeof value === 'string' && value.length > MAX_TEXT_LENGTH ? `${value.slice(0, MAX_TEXT_LENGTH)}…` : value;
}
