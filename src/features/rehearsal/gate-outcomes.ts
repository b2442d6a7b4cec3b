import type { DeliveryRecord } from '../../model/delivery.ts';
import { judgeByExpressions } from '../../webhooks/acceptance.ts';
import { readContent } from '../../webhooks/content.ts';
import { gateChain } from '../../webhooks/gates/index.ts';
import { isHandshake } from '../../webhooks/handshakes.ts';
import { hasSameGates, type PreparedTrigger } from '../../webhooks/triggers.ts';
import { judgeByGates, restore } from '../review/judge-again.ts';

/** What a trigger does with a delivery, in words; or why it cannot be judged again. */
type GateOutcome = { readonly outcome: string; readonly starts: boolean } | { readonly why: string };

/** What two triggers do with the same delivery. */
interface GateOutcomes {
  readonly before: GateOutcome;
  readonly after: GateOutcome;
}

const NOWHERE: GateOutcome = { outcome: 'refused: unknown_flow', starts: false };
const HANDSHAKE: GateOutcome = { outcome: 'answered as a handshake', starts: false };

/**
 * Judges a stored delivery with two triggers, as of its arrival and without nonces. Equal triggers get one result; if
 * the delivery cannot be judged again, the recorded one.
 */
export async function judgeBoth(
  record: DeliveryRecord,
  before: PreparedTrigger,
  after: PreparedTrigger | undefined,
): Promise<GateOutcomes> {
  if (after === undefined) return { before: await judge(record, before), after: NOWHERE };
  if (!hasSameGates(before, after)) return { before: await judge(record, before), after: await judge(record, after) };
  const outcome = await outcomeAtSameGates(record, before);
  return { before: outcome, after: outcome };
}

async function outcomeAtSameGates(record: DeliveryRecord, trigger: PreparedTrigger): Promise<GateOutcome> {
  const outcome = await judge(record, trigger);
  if (!('why' in outcome)) return outcome;
  if (record.runId !== null) return { outcome: 'accepted', starts: true };
  return { outcome: record.reason === null ? 'accepted' : `refused: ${record.reason}`, starts: false };
}

async function judge(record: DeliveryRecord, trigger: PreparedTrigger): Promise<GateOutcome> {
  const { flowId, inputs } = trigger.trigger;
  const path = `/flows/api/webhook/${encodeURIComponent(inputs.webhookSlug ?? flowId)}`;
  const url = trigger.endpointOf({ path, requestUrl: `http://localhost${path}` });
  const restored = restore(record, trigger, url);
  if ('problem' in restored) return { why: restored.problem };
  const { delivery, unjudgeable } = restored;
  if (isHandshake(delivery, trigger)) return HANDSHAKE;
  if (unjudgeable !== null) return { why: unjudgeable };
  if (trigger.schemeName !== null && trigger.grade === null) return { why: OWN_CODE };
  const gates = trigger.gates.filter(({ name }) => BUILT_IN_GATES.has(name));
  const { judgement, refusal } = await judgeByGates(delivery, { ...trigger, gates });
  if (judgement.violations.includes('verification_unavailable')) return { why: TO_BE_FETCHED };
  if (refusal !== null) return { outcome: `refused: ${refusal}`, starts: false };
  const body = await readContent(delivery, trigger);
  if ('reason' in body) return { outcome: `refused: ${body.reason}`, starts: false };
  const expressions = judgeByExpressions({ delivery, trigger, judgement, body });
  if (expressions?.filteredBy !== undefined) return { outcome: `filtered by ${expressions.filteredBy}`, starts: false };
  const { signals } = trigger;
  return signals === undefined
    ? { outcome: 'accepted', starts: true }
    : { outcome: `answers ${signals.step}`, starts: false };
}

/** Gates of operators are not asked, because their code may call out. */
const BUILT_IN_GATES: ReadonlySet<string> = new Set(gateChain().map(({ name }) => name));
const OWN_CODE = 'cannot be judged again: a verifier of your own code verifies it, which may call out';
const TO_BE_FETCHED = 'cannot be judged again: what verifies it has to be fetched from its publisher';
