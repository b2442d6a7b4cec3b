import { type Gate, GateConfigurationError, type Passed, type WebhookTrigger } from '../gate.ts';

/**
 * The gate of a trigger with several keys in force: each key has its own gate. If a delivery is signed with a key in
 * force and with the previous key, the key in force counts.
 */
export function withEachKey(
  trigger: WebhookTrigger,
  prepare: (trigger: WebhookTrigger) => Gate | undefined,
): Gate | undefined {
  const { others, ...keys } = trigger.keys;
  if (others === undefined) return prepare(trigger);
  const first = prepare({ ...trigger, keys });
  const further = others.map((current, at) =>
    numbered(at, () => prepare({ ...trigger, keys: { current, previous: undefined } })),
  );
  if (first === undefined) return undefined;
  return {
    name: first.name,
    async check(delivery, evidence) {
      const verdict = await first.check(delivery, evidence);
      const passed = verdict.passed ? [verdict] : [];
      for (const [otherKey, gate] of further.entries()) {
        const last = passed.at(-1)?.evidence;
        if (last !== undefined && last.usedPreviousKey !== true && last.isOneOfSeveral !== true) break;
        const other = await gate?.check(delivery, evidence);
        if (other?.passed === true) passed.push({ ...other, evidence: { ...other.evidence, otherKey } });
      }
      if (new Set(passed.map(nameOf)).size > 1) {
        // Otherwise each signature alone would make a separate delivery.
        const detail = 'its signatures are of different times, or cover different things';
        return { passed: false, reason: 'signature_malformed', detail, evidence: { isVerified: false } };
      }
      return passed.find(({ evidence: of }) => of?.usedPreviousKey !== true) ?? verdict;
    },
  };
}

const nameOf = ({ evidence }: Passed) => `${evidence?.signedTimestamp?.text} ${evidence?.signedBytesSha256}`;

function numbered<Result>(at: number, prepare: () => Result): Result {
  try {
    return prepare();
  } catch (error) {
    if (!(error instanceof GateConfigurationError)) throw error;
    throw new GateConfigurationError(error.field, `number ${at + 2} of the list ${error.message}`);
  }
}
