import { type Delivery, type DeliveryRecord, type GateResult, REASON_CODES, type Reason } from '../model/delivery.ts';
import type { Json, JsonObject } from '../model/json.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { Evidence, Failed, Gate, Verdict } from './gate.ts';
import { failureOf } from './gates/operator-gate.ts';
import { signatureGate } from './gates/signature.ts';

/** The verdicts of a trigger's gates on one delivery, and later findings. */
export interface Judgement {
  /** Why the delivery is refused: by a gate only under Enforce, by later checks in every mode. Otherwise null. */
  readonly refusal: Reason | null;
  /** The first failure in pipeline order, the one that Enforce would answer with; null when clean. */
  readonly reason: Reason | null;
  /** Every failure found, in pipeline order. Under Enforce there is one at most. */
  readonly violations: readonly Reason[];
  readonly detail: string | null;
  readonly evidence: Evidence;
  /** One entry for each gate that the trigger configures. */
  readonly gateResults: readonly GateResult[];
}

const NONE: readonly Reason[] = [];
const NO_FACTS: JsonObject = {};

/** The judgement on a delivery that no gate has checked. */
export const CLEAN: Judgement = {
  refusal: null,
  reason: null,
  violations: NONE,
  detail: null,
  evidence: {},
  gateResults: [],
};

/** Adds a reason that was found after the gates, and so comes after their reasons. */
export function withViolation(judgement: Judgement, reason: Reason): Judgement {
  if (judgement.violations.includes(reason)) return judgement;
  return { ...judgement, reason: judgement.reason ?? reason, violations: [...judgement.violations, reason] };
}

/** The judgement of a delivery that is refused for the reason, whatever the mode. */
export function refusedFor(judgement: Judgement, reason: Reason): Judgement {
  return { ...withViolation(judgement, reason), refusal: reason };
}

/**
 * Runs a trigger's gates in order and says what Enforce would answer.
 *
 * The mode is known here and nowhere else: a gate only says whether the delivery passes. Enforce stops at the first
 * failure, so that later gates spend nothing on a refused delivery; Off and Audit continue, so that an operator sees
 * every gate's verdict before switching, but skip expensive gates after a failure, so that a stranger's delivery costs
 * little in every mode. A gate that throws has failed: never a pass, and never an answer without a record.
 */
export async function runGates(gates: readonly Gate[], delivery: Delivery, mode: EnforcementMode): Promise<Judgement> {
  const isEnforced = mode === 'Enforce';
  const failures: Failed[] = [];
  const gateResults: GateResult[] = [];
  let evidence: Evidence = {};
  let isFound = false;
  for (const gate of gates) {
    if (failures.length > 0 && (isEnforced || gate.isExpensive === true)) {
      gateResults.push(resultWithoutVerdict(gate.name, 'not evaluated'));
      continue;
    }
    const known = failures.length === 0 ? evidence : { ...evidence, refusedFor: reasonsOf(failures) };
    const asked = ask(gate, delivery, known);
    // Await only promises: the built-in gates answer at once.
    const verdict = asked instanceof Promise ? await asked : asked;
    if (verdict.evidence !== undefined) {
      evidence = isFound ? merge(evidence, verdict.evidence) : { ...verdict.evidence };
      isFound = true;
    }
    if (!verdict.passed) failures.push(verdict);
    gateResults.push(resultOf(gate.name, verdict, delivery));
  }
  const violations = reasonsOf(failures);
  const reason = violations[0] ?? null;
  return { refusal: isEnforced ? reason : null, reason, violations, detail: detailOf(failures), evidence, gateResults };
}

/** Runs the gates as Audit does, without using anything up. Under Enforce, `refusal` is what it would answer with. */
export async function dryRunGates(
  gates: readonly Gate[],
  delivery: Delivery,
  mode: EnforcementMode,
): Promise<Judgement> {
  const harmless = gates.map((gate) => ({
    name: gate.name,
    isExpensive: gate.isExpensive,
    check: (it: Delivery, evidence: Evidence) => gate.dryRun?.(it, evidence) ?? gate.check(it, evidence),
  }));
  const judgement = await runGates(harmless, delivery, 'Audit');
  return { ...judgement, refusal: mode === 'Enforce' ? judgement.reason : null };
}

/**
 * Judges a delivery that was fetched from the publisher's own log. `takesUnsigned`: it passes the signature gate
 * although nothing was verified, and the evidence says so, unless verification was only unavailable for now.
 */
export function judgeFetched(
  gates: readonly Gate[],
  delivery: Delivery,
  { mode, takesUnsigned }: { readonly mode: EnforcementMode; readonly takesUnsigned: boolean },
): Promise<Judgement> {
  const asked = gates.flatMap((gate): Gate[] => {
    const { name, isExpensive, whenFetched: check = gate.check.bind(gate) } = gate;
    if (check === 'not asked') return [];
    return [{ name, isExpensive, check: name === signatureGate.name && takesUnsigned ? unlessUnsigned(check) : check }];
  });
  return runGates(asked, delivery, mode);
}

function unlessUnsigned(check: Gate['check']): Gate['check'] {
  return async (...given) => {
    const verdict = await check(...given);
    if (verdict.passed || verdict.reason === 'verification_unavailable') return verdict;
    const facts = { signature: { taken: 'from the log of the publisher', insteadOf: verdict.reason } };
    return { passed: true, evidence: { ...verdict.evidence, isVerified: false, facts } };
  };
}

function ask(gate: Gate, delivery: Delivery, evidence: Evidence): Verdict | Promise<Verdict> {
  try {
    const answer = gate.check(delivery, evidence);
    return answer instanceof Promise ? verdictOfPromise(gate, answer) : verdictOf(gate, answer);
  } catch (error) {
    return broken(failureOf(`gate "${gate.name}"`, error));
  }
}

async function verdictOfPromise(gate: Gate, answer: Promise<Verdict>): Promise<Verdict> {
  try {
    return verdictOf(gate, await answer);
  } catch (error) {
    return broken(failureOf(`gate "${gate.name}"`, error));
  }
}

function verdictOf(gate: Gate, answer: Verdict): Verdict {
  if (isVerdict(answer)) return answer;
  return broken(`gate "${gate.name}" gave no verdict: neither a pass nor a failure with a known reason`);
}

function broken(detail: string): Failed {
  return { passed: false, reason: 'verifier_error', detail };
}

// Operators write gates in plain JavaScript too: any other value must not count as a pass or as a known reason.
function isVerdict(given: Verdict | undefined | null): given is Verdict {
  if (given?.passed !== true && !(given?.passed === false && REASON_CODES.includes(given.reason))) return false;
  const { detail, evidence }: { detail?: unknown; evidence?: unknown } = given;
  const isTold = detail === undefined || typeof detail === 'string';
  return isTold && (evidence === undefined || (typeof evidence === 'object' && evidence !== null));
}

function merge(evidence: Evidence, found: Evidence): Evidence {
  const merged = { ...evidence, ...found };
  if (evidence.facts === undefined || found.facts === undefined) return merged;
  return { ...merged, facts: { ...evidence.facts, ...found.facts } };
}

/** Each reason once, in pipeline order, however many gates give it. */
function reasonsOf(failures: readonly Failed[]): readonly Reason[] {
  if (failures.length === 0) return NONE;
  return [...new Set(failures.map(({ reason }) => reason))];
}

/** A single failure needs no label; each of several gets its reason as a label. */
function detailOf(failures: readonly Failed[]): string | null {
  const spoken = failures.filter((failure) => failure.detail !== undefined);
  if (spoken.length === 0) return null;
  if (failures.length === 1) return spoken[0]?.detail ?? null;
  return spoken.map((failure) => `${failure.reason}: ${failure.detail}`).join('; ');
}

// Text from a sender is kept only as far as needed to recognise it.
const MAX_TEXT_LENGTH = 600;

/** One gate's result for a delivery, as it is kept and shown. */
function resultOf(gate: string, verdict: Verdict, delivery: Delivery): GateResult {
  const facts = verdict.evidence === undefined ? {} : factsOf(gate, verdict.evidence, delivery);
  if (verdict.passed) return { gate, outcome: 'passed', reason: null, detail: null, facts };
  return { gate, outcome: 'failed', reason: verdict.reason, detail: verdict.detail ?? null, facts };
}

function resultWithoutVerdict(gate: string, outcome: 'not evaluated' | 'not configured'): GateResult {
  return { gate, outcome, reason: null, detail: null, facts: {} };
}

/** One result for every gate of the chain, in its order; results of other gates stay at the end. */
export function withUnasked(
  { chain, gates }: { readonly chain: readonly string[]; readonly gates: readonly Pick<Gate, 'name'>[] },
  results: readonly GateResult[],
): GateResult[] {
  const isConfigured = (gate: string) => gates.some(({ name }) => name === gate);
  const unasked = (gate: string) => resultWithoutVerdict(gate, isConfigured(gate) ? 'not evaluated' : 'not configured');
  const all = chain.map((name) => results.find(({ gate }) => gate === name) ?? unasked(name));
  for (const result of results) {
    if (!chain.includes(result.gate)) all.push(result);
  }
  return all;
}

/** The acceptance finds out whether a nonce is new, after the gate that named it has passed. */
function withReplay(results: readonly GateResult[], isReplay: boolean): GateResult[] {
  return results.map((entry) =>
    isReplay && entry.gate === 'replay' && entry.outcome === 'passed'
      ? { ...entry, outcome: 'failed', reason: 'nonce_replayed' }
      : entry,
  );
}

/** The gates' results plus the checks before and after them: size, address, and whether the body can be read. */
export function allResults({
  gateResults = [],
  violations,
  bodyBytes,
  statusCode,
}: Pick<DeliveryRecord, 'gateResults' | 'violations' | 'bodyBytes' | 'statusCode'>): GateResult[] {
  const isTooLarge = violations.includes('body_too_large');
  const misled = violations.find((reason) => MISLED.has(reason));
  const unreadable = violations.find((reason) => UNREADABLE.has(reason));
  return [
    stage('bodyCap', isTooLarge ? 'body_too_large' : undefined, { bodyBytes }),
    isTooLarge ? resultWithoutVerdict('address', 'not evaluated') : stage('address', misled, {}),
    ...withReplay(gateResults, violations.includes('nonce_replayed')),
    unreadable === undefined && statusCode >= 400
      ? resultWithoutVerdict('body', 'not evaluated')
      : stage('body', unreadable, {}),
  ];
}

/** Reasons that end a delivery after the gates. */
const UNREADABLE: ReadonlySet<Reason> = new Set<Reason>(['invalid_json', 'invalid_encoding', 'encoding_not_supported']);

/** Reasons that end a delivery before any gate. */
const MISLED: ReadonlySet<Reason> = new Set<Reason>(['unknown_flow', 'flow_unreadable', 'flow_disabled']);

function stage(gate: string, reason: Reason | undefined, facts: JsonObject): GateResult {
  return { gate, outcome: reason === undefined ? 'passed' : 'failed', reason: reason ?? null, detail: null, facts };
}

/** The facts that this gate found, by name. Evidence for later gates is not shown; retry times go only into traces. */
function factsOf(gate: string, evidence: Evidence, { receivedAt }: Delivery): JsonObject {
  const told: Record<string, Json> = {};
  const { scheme, isVerified, usedPreviousKey, signedBytesSha256, replaySkewMs, signedTimestamp, nonce } = evidence;
  if (scheme !== undefined) told.scheme = cut(scheme);
  if (isVerified !== undefined) told.isVerified = cut(isVerified);
  if (usedPreviousKey !== undefined) told.usedPreviousKey = cut(usedPreviousKey);
  if (signedBytesSha256 !== undefined) told.signedBytesSha256 = cut(signedBytesSha256);
  if (replaySkewMs !== undefined) told.replaySkewMs = cut(replaySkewMs);
  if (signedTimestamp !== undefined) told.signedTimestamp = cut(signedTimestamp.text);
  if (nonce !== undefined) {
    told.nonce = cut(nonce.value);
    // For people to read: the time of the ledger decides.
    told.nonceExpiresAt = isoTime(receivedAt + nonce.lifeMs);
  }
  for (const [name, value] of Object.entries(evidence.facts?.[gate] ?? NO_FACTS))
    if (value !== undefined) told[name] = cut(value);
  return told;
}

/** The last second in text: formatting a date took a twelfth of a judgement, and most deliveries share a second. */
const lastSecond = { second: Number.NaN, text: '' };

function isoTime(at: number): string {
  const ms = Math.trunc(at);
  const second = Math.floor(ms / 1000);
  if (second !== lastSecond.second) {
    lastSecond.text = new Date(second * 1000).toISOString().slice(0, -'000Z'.length);
    lastSecond.second = second;
  }
  return `${lastSecond.text}${String(ms - second * 1000).padStart(3, '0')}Z`;
}

function cut(value: Json): Json {
  return typeof value === 'string' && value.length > MAX_TEXT_LENGTH ? `${value.slice(0, MAX_TEXT_LENGTH)}…` : value;
}
