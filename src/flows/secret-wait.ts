import { z } from 'zod';
import { type Json, parseJson } from '../model/json.ts';
import type { Claim, StepResult } from '../store/store.ts';
import { backoffMs } from './step-failure.ts';

/** A reference of a step cannot be read now. Its owner can repair that, so it does not cost the step an attempt. */
export class MissingSecretError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'MissingSecretError';
  }
}

/** State of a step that waits for a secret; the store finds it by `secretWait`. */
const secretWait = z.strictObject({
  /** Why it cannot be read: the place of the reference, and its name. */
  secretWait: z.string(),
  looks: z.number(),
  /** As text, so that readers of waiting steps' states do not take it for theirs. Null if the step had not begun. */
  resumed: z.string().nullable(),
});

interface SecretWait {
  readonly looks: number;
  /** State with which the handler continues; null if it has not begun. */
  readonly resumed: Claim['resumed'];
}

export function secretWaitIn({ resumed }: Pick<Claim, 'resumed'>): SecretWait | undefined {
  // Hardly any step has waited.
  if (resumed === null) return undefined;
  const { data } = secretWait.safeParse(resumed.state);
  if (data === undefined) return undefined;
  const kept = data.resumed === null ? null : (parseJson(data.resumed) as unknown as Claim['resumed']);
  return { looks: data.looks, resumed: kept };
}

/** Each look is cheap, and the step should continue soon after the secret is back. */
const LOOK_AGAIN = { backoffSeconds: 1, factor: 2, maxBackoffSeconds: 60, jitter: false };

/** The time limit of the step does not end the wait, because the handler does not run; that of the run does. */
export function waitForSecret(
  { message }: MissingSecretError,
  { waited, resumed, now }: { readonly waited: SecretWait | undefined; readonly now: number } & Pick<Claim, 'resumed'>,
): StepResult {
  const looks = (waited?.looks ?? 0) + 1;
  const kept = resumed === null ? null : JSON.stringify(resumed);
  const state: Json = { secretWait: message, looks, resumed: kept };
  const dueAt = Math.ceil(now + backoffMs(LOOK_AGAIN, looks, Math.random));
  return { kind: 'waiting', state, dueAt, signalName: null };
}

/** Starts over once the secret is there: the handler must not pay for the time of the wait. */
export function beginAnew(now: number): StepResult {
  const message = 'the step waited for a secret, which can be read now';
  const error = { code: 'secret_unavailable', message, retryable: true } as const;
  return { kind: 'retry', error, dueAt: Math.ceil(now), isUncounted: true };
}
