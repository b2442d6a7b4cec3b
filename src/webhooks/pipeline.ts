import type { Delivery, GateStory, Reason } from '../model/delivery.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { Evidence, Failed, Gate, Verdict } from './gate.ts';
import { failureOf } from './gates/answer-in-time.ts';
import { isReason } from './reasons.ts';
import { notAsked, tell } from './story.ts';

/** What all gates of a trigger said about one delivery. */
export interface Judgement {
  /** What Enforce answers with; null under every other mode, and where nothing failed. */
  readonly refusal: Reason | null;
  /** The first failure in pipeline order, the one that Enforce would answer with; null when clean. */
  readonly reason: Reason | null;
  /** Every failure found, in pipeline order. Under Enforce there is one at most. */
  readonly violations: readonly Reason[];
  readonly detail: string | null;
  readonly evidence: Evidence;
  /** One entry for each gate that the trigger configures. */
  readonly story: readonly GateStory[];
}

/**
 * Runs a trigger's gates in order and says what Enforce would answer.
 *
 * The mode is known here and nowhere else: a gate only says whether the delivery passes. Enforce stops at the first
 * failure, so that later gates spend nothing on a refused delivery; Off and Audit go on, so that an operator sees
 * every gate's opinion before switching. A gate that throws has failed: never a pass, and never an answer without a record.
 */
export async function runGates(gates: readonly Gate[], delivery: Delivery, mode: EnforcementMode): Promise<Judgement> {
  const isEnforced = mode === 'Enforce';
  const failures: Failed[] = [];
  const story: GateStory[] = [];
  let evidence: Evidence = {};
  for (const gate of gates) {
    if (isEnforced && failures.length > 0) {
      story.push(notAsked(gate.name, 'not evaluated'));
      continue;
    }
    const refusedFor = reasonsOf(failures);
    const known = refusedFor.length === 0 ? evidence : { ...evidence, refusedFor };
    const verdict = await verdictOf(gate, delivery, known);
    if (verdict.evidence !== undefined) evidence = merge(evidence, verdict.evidence);
    if (!verdict.passed) failures.push(verdict);
    story.push(tell(gate.name, verdict));
  }
  const violations = reasonsOf(failures);
  const reason = violations[0] ?? null;
  return { refusal: isEnforced ? reason : null, reason, violations, detail: detailOf(failures), evidence, story };
}

/**
 * What every gate says, whatever those before it said, without using anything up. A refusal is what Enforce answers with,
 * as ever.
 */
export async function rehearseGates(
  gates: readonly Gate[],
  delivery: Delivery,
  mode: EnforcementMode,
): Promise<Judgement> {
  const harmless = gates.map((gate) => ({
    name: gate.name,
    check: (it: Delivery, evidence: Evidence) => gate.rehearse?.(it, evidence) ?? gate.check(it, evidence),
  }));
  const judgement = await runGates(harmless, delivery, 'Audit');
  return { ...judgement, refusal: mode === 'Enforce' ? judgement.reason : null };
}

async function verdictOf(gate: Gate, delivery: Delivery, evidence: Evidence): Promise<Verdict> {
  const broken = (detail: string): Failed => ({ passed: false, reason: 'verifier_error', detail });
  try {
    const verdict = await gate.check(delivery, evidence);
    if (isVerdict(verdict)) return verdict;
    return broken(`gate "${gate.name}" gave no verdict: neither a pass nor a failure with a known reason`);
  } catch (error) {
    return broken(failureOf(`gate "${gate.name}"`, error));
  }
}

// Operators write gates in plain JavaScript too: what is neither a pass nor a known reason must not count as either.
function isVerdict(given: Verdict | undefined | null): given is Verdict {
  if (given?.passed !== true && !(given?.passed === false && isReason(given.reason))) return false;
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
function reasonsOf(failures: readonly Failed[]): Reason[] {
  return [...new Set(failures.map(({ reason }) => reason))];
}

/** One failure speaks for itself; of several each is named. */
function detailOf(failures: readonly Failed[]): string | null {
  const spoken = failures.filter((failure) => failure.detail !== undefined);
  if (spoken.length === 0) return null;
  if (failures.length === 1) return spoken[0]?.detail ?? null;
  return spoken.map((failure) => `${failure.reason}: ${failure.detail}`).join('; ');
}
