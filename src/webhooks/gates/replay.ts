import { createHash, hash } from 'node:crypto';
import type { Delivery, Reason } from '../../model/delivery.ts';
import { isStorable } from '../../model/text.ts';
import {
  type Evidence,
  type Failed,
  type Gate,
  GateConfigurationError,
  type GatePlugin,
  type GateSettings,
  type NonceEvidence,
  type SignedTimestamp,
  type Verdict,
  type WebhookTrigger,
} from '../gate.ts';
import { type CoverRule, coverRule } from '../schemes/cover-rule.ts';
import type { SchemeRegistry } from '../schemes/resolve.ts';
import { timestampMs } from '../schemes/values.ts';

/** The trigger's fields and global defaults that this gate uses. */
export interface ReplayRule {
  /** 0 for no skew check. */
  readonly toleranceMs: number;
  readonly nonceTtlMs: number;
  readonly requiresTimestamp: boolean;
  /** Lower case, as headers are. */
  readonly timestampHeader: string | undefined;
  readonly nonceHeader: string | undefined;
  /** Whether the gate names nonces; otherwise it checks only the timestamp. */
  readonly namesNonce: boolean;
  readonly covers: CoverRule;
}

type ReplaySettings = GateSettings & { readonly schemes: SchemeRegistry };

/** A timestamp and whether the signature vouches for it. */
interface FoundTimestamp extends SignedTimestamp {
  readonly isSigned: boolean;
}

/** Longer values of a nonce header are kept as their digest, as are values that no store takes as text. */
const MAX_NONCE_LENGTH = 512;

/** The ledger time of two replicas can differ by this much: a little more than the time between two beats. */
const MARGIN_MS = 6000;

/**
 * Checks the age of a delivery, and names its nonce, so that the acceptance can find out whether it was accepted
 * before. The gate asks no store: a nonce counts as used only once a run was committed with it.
 */
export const replayGate: GatePlugin<ReplaySettings> = {
  name: 'replay',
  prepare(trigger, settings): Gate | undefined {
    const rule = replayRule(trigger, settings);
    if (rule === undefined) return undefined;
    // The age of an entry in the publisher's own log says nothing.
    const ofAnyAge = { ...rule, toleranceMs: 0 };
    return {
      name: 'replay',
      check: (delivery, evidence) => checkReplay(delivery, evidence, rule),
      whenFetched: (delivery, evidence) => checkReplay(delivery, evidence, ofAnyAge),
    };
  },
};

/** Undefined if the trigger does not configure the gate. */
export function replayRule(trigger: WebhookTrigger, settings: ReplaySettings): ReplayRule | undefined {
  const rule = ruleOf(trigger, settings);
  return rule.namesNonce || rule.requiresTimestamp ? rule : undefined;
}

/** Names a delivery's nonce even if no gate asks for it now, because a later revision may. */
export type NameDelivery = (delivery: Delivery, evidence: Evidence) => NonceEvidence;

export function prepareNames(trigger: WebhookTrigger, settings: ReplaySettings): NameDelivery {
  const rule = ruleOf(trigger, settings);
  return (delivery, evidence) =>
    evidence.nonce ?? nonceOf(delivery, { evidence, timestamp: findTimestamp(delivery, evidence, rule), rule });
}

function ruleOf(trigger: WebhookTrigger, settings: ReplaySettings): ReplayRule {
  const { inputs } = trigger;
  const toleranceSeconds = inputs.webhookReplayToleranceSeconds ?? settings.replayToleranceSeconds;
  if (!Number.isFinite(toleranceSeconds) || toleranceSeconds < 0) {
    throw new GateConfigurationError('webhookReplayToleranceSeconds', 'must be a number of seconds, 0 for no check');
  }
  if (toleranceSeconds > settings.nonceTtlSeconds) {
    const kept = `SLUICE_NONCE_TTL_SECONDS=${settings.nonceTtlSeconds}`;
    const problem = `is ${toleranceSeconds}, but nonces are kept for ${settings.nonceTtlSeconds} s: a delivery would pass again`;
    throw new GateConfigurationError('webhookReplayToleranceSeconds', `${problem}; lower it, or raise ${kept} first`);
  }
  const nonceHeader = headerName(inputs.webhookNonceHeader, 'webhookNonceHeader');
  return {
    toleranceMs: toleranceSeconds * 1000,
    nonceTtlMs: settings.nonceTtlSeconds * 1000,
    requiresTimestamp: inputs.webhookRequireTimestamp ?? false,
    timestampHeader: headerName(inputs.webhookTimestampHeader, 'webhookTimestampHeader'),
    nonceHeader,
    namesNonce: toleranceSeconds > 0 || nonceHeader !== undefined,
    covers: coverRule(trigger, settings),
  };
}

function headerName(name: string | undefined, field: string): string | undefined {
  if (name?.trim() === '') throw new GateConfigurationError(field, 'is empty; leave it out, or name a header');
  return name?.trim().toLowerCase();
}

function checkReplay(delivery: Delivery, evidence: Evidence, rule: ReplayRule): Verdict {
  const timestamp = findTimestamp(delivery, evidence, rule);
  const skewMs =
    timestamp === undefined || !Number.isFinite(timestamp.ms) ? undefined : delivery.receivedAt - timestamp.ms;
  const found: Evidence = {
    ...(skewMs === undefined ? {} : { replaySkewMs: skewMs }),
    ...(rule.namesNonce ? { nonce: nonceOf(delivery, { evidence, timestamp, rule }) } : {}),
  };
  const failure = timestampFailure(timestamp, skewMs, rule);
  if (failure === undefined) return { passed: true, evidence: found };
  if (isTold(failure.reason, evidence)) {
    return { passed: true, evidence: { ...found, facts: { replay: { timestamp: 'refused by an earlier gate' } } } };
  }
  return { ...failure, evidence: found };
}

/** Whether the signature gate, which refuses signed timestamps, has reported the failure already. */
function isTold(reason: Reason, { refusedFor = [], lacksTimestampWithSignature }: Evidence): boolean {
  return refusedFor.includes(reason) || (reason === 'timestamp_missing' && lacksTimestampWithSignature === true);
}

/** The timestamp that the signature covers; if there is none, that of the header that the trigger names. */
function findTimestamp(delivery: Delivery, evidence: Evidence, rule: ReplayRule): FoundTimestamp | undefined {
  if (evidence.signedTimestamp !== undefined) return { ...evidence.signedTimestamp, isSigned: true };
  const text = headerValue(delivery, rule.timestampHeader);
  return text === undefined ? undefined : { text, ms: timestampMs(text, 'detect'), isSigned: false };
}

function timestampFailure(
  timestamp: FoundTimestamp | undefined,
  skewMs: number | undefined,
  rule: ReplayRule,
): Failed | undefined {
  if (timestamp === undefined) {
    if (!rule.requiresTimestamp) return undefined;
    return { passed: false, reason: 'timestamp_missing', detail: 'the delivery has no timestamp' };
  }
  if (skewMs === undefined) {
    return { passed: false, reason: 'timestamp_malformed', detail: 'the timestamp is malformed' };
  }
  if (rule.toleranceMs === 0 || Math.abs(skewMs) <= rule.toleranceMs) return undefined;
  const distance = `${Math.abs(skewMs) / 1000} s ${skewMs > 0 ? 'behind' : 'ahead of'} this clock`;
  const detail = `the timestamp is ${distance}; the tolerance is ${rule.toleranceMs / 1000} s`;
  return { passed: false, reason: 'timestamp_skew', detail };
}

function nonceOf(
  delivery: Delivery,
  { evidence, timestamp, rule }: { evidence: Evidence; timestamp: FoundTimestamp | undefined; rule: ReplayRule },
): NonceEvidence {
  const sent = sentNonce(delivery, evidence, rule);
  const named = digestOf(delivery, evidence, { timestamp, rule });
  const { digest } = named;
  const lifeMs = lifeOf(delivery.receivedAt, timestamp, rule);
  if (sent === undefined) return { header: '', value: digest, ...named, lifeMs };
  const isKept = sent.length <= MAX_NONCE_LENGTH && isStorable(sent);
  // UTF-16, because UTF-8 would turn several malformed texts into the same one.
  const value = isKept ? sent : hash('sha256', isStorable(sent) ? sent : Buffer.from(sent, 'utf16le'));
  return { header: rule.nonceHeader ?? '', value, ...named, lifeMs };
}

/**
 * The value of the named header. If the scheme has this header in several families, the value from the family that
 * verified: the header of another family is not verified, so a captured delivery could use it to get any nonce.
 */
function sentNonce(delivery: Delivery, evidence: Evidence, { nonceHeader }: ReplayRule): string | undefined {
  if (nonceHeader === undefined) return undefined;
  const verified = evidence.verifiedHeaders?.get(nonceHeader)?.trim();
  return verified === undefined ? headerValue(delivery, nonceHeader) : verified || undefined;
}

/**
 * The SHA-256 of timestamp and body. A timestamp that a verified signature does not cover is left out: anyone with a
 * captured delivery could write a new one into the header, and so give the same delivery a new nonce. For the same
 * reason, a signature that does not cover the raw body between fixed boundaries makes the bytes that it covers the
 * nonce.
 */
function digestOf(
  { body }: Delivery,
  evidence: Evidence,
  { timestamp, rule: { covers } }: { timestamp: FoundTimestamp | undefined; rule: ReplayRule },
): Pick<NonceEvidence, 'digest' | 'covers'> {
  const { signedBytesSha256: signed, isVerified = false } = evidence;
  const bodySha256 = hash('sha256', body);
  const counts = timestamp?.isSigned === true || !isVerified;
  const text = counts && timestamp !== undefined ? timestamp.text : '';
  const [digest, kind] =
    signed !== undefined
      ? [signed, 'bytes']
      : text === ''
        ? [bodySha256, 'body']
        : [createHash('sha256').update(text).update(body).digest('hex'), 'time'];
  if (!covers.isByVerifier) return { digest, covers: { rule: covers.name, bodySha256 } };
  // Its code may change without its name. What it did not verify, such as an entry of the publisher's log, shows nothing.
  return isVerified ? { digest, covers: { rule: `${covers.name}-${kind}`, bodySha256 } } : { digest };
}

/**
 * A nonce is kept for its whole time to live, counted from the delivery's timestamp if that is later than its arrival.
 * No tolerance may be longer than that, so while the lifetime is not raised, no tolerance lets the timestamp pass later.
 * Only modes that do not enforce accept a timestamp that is even further ahead; its row is not kept forever.
 */
function lifeOf(receivedAt: number, timestamp: FoundTimestamp | undefined, { nonceTtlMs }: ReplayRule): number {
  const aheadMs = timestamp === undefined || !Number.isFinite(timestamp.ms) ? 0 : timestamp.ms - receivedAt;
  return Math.min(Math.max(aheadMs, 0), nonceTtlMs) + nonceTtlMs + MARGIN_MS;
}

/** The trimmed value; undefined if no header is named, or if it is absent or empty. */
function headerValue({ headers }: Delivery, name: string | undefined): string | undefined {
  if (name === undefined || !Object.hasOwn(headers, name)) return undefined;
  const value = headers[name]?.trim();
  return value === '' ? undefined : value;
}
