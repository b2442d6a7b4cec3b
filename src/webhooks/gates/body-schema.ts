import type { GatePlugin, Verdict } from '../gate.ts';
import { type KeepBody, prepareKeptBody } from '../kept-body.ts';
import { type ResolvedScheme, resolveScheme } from '../schemes/resolve.ts';
import type { SignatureSpec } from '../schemes/spec.ts';
import { documentOf } from '../schemes/values.ts';
import { createDearTurns, type DearTurns } from './dear-turns.ts';
import { AnswerTimeoutError, answerInTime, failureOf } from './operator-gate.ts';
import type { SignatureSettings } from './signature.ts';

export const BODY_SCHEMA = 'bodySchema';
/** Shorter bodies, which are most, are judged at once: that costs less than waiting for a turn. */
const LONG_BYTES = 8192;

/**
 * Checks the body against the trigger's schema. The last of the built-in gates, because it should only judge authentic
 * new deliveries. A body that claims to be JSON but is not is refused after the gates, in every mode.
 *
 * A long body can take a fifth of a second with a demanding schema. Several at once would occupy the process, so they
 * take turns.
 */
export function bodySchemaGate(): GatePlugin<SignatureSettings> {
  let turns: DearTurns | undefined;
  return {
    name: BODY_SCHEMA,
    prepare(trigger, { schemes, clock, verifierTimeLimitMs }) {
      const { bodySchema } = trigger;
      if (bodySchema === undefined) return undefined;
      // The schema is for what a flow reads. Resolved at the first delivery: the signature gate reports a bad scheme.
      let kept: { readonly keepBody: KeepBody | undefined; readonly document: SignatureSpec['document'] } | undefined;
      return {
        name: BODY_SCHEMA,
        isExpensive: true,
        check({ body: sent, content, headers }) {
          kept ??= readOf(resolveScheme(schemes, trigger.inputs, trigger.keys));
          const { keepBody, document } = kept;
          const declared = { contentType: headers['content-type'], document: documentOf(document, headers) };
          if ('error' in bodySchema) return { passed: false, reason: 'verifier_error', detail: bodySchema.error };
          const judged = (body: Buffer) => {
            const judge = () => verdictOf(bodySchema.mistakesIn(body, declared));
            if (body.length < LONG_BYTES) return judge();
            turns ??= createDearTurns(clock);
            const { run } = turns;
            return answerInTime((signal) => run(trigger.flowId, judge, signal), verifierTimeLimitMs).catch(unjudged);
          };
          if (content === undefined) return judged(keepBody?.(sent) ?? sent);
          // A body that cannot be decoded is refused after the gates, like a body that is not JSON.
          return content.decode().then((decoded) => ('reason' in decoded ? { passed: true } : judged(decoded.bytes)));
        },
      };
    },
  };
}

function readOf(scheme: ResolvedScheme | undefined) {
  return { keepBody: prepareKeptBody(scheme), document: scheme?.kind === 'spec' ? scheme.spec.document : undefined };
}

function verdictOf(mistakes: readonly string[]): Verdict {
  if (mistakes.length === 0) return { passed: true };
  return { passed: false, reason: 'body_schema', detail: mistakes.join('; ') };
}

/** A timeout: the sender did nothing wrong and may send the delivery again. */
function unjudged(error: unknown): Verdict {
  if (!(error instanceof AnswerTimeoutError)) throw error;
  return { passed: false, reason: 'verification_unavailable', detail: failureOf('the check of its body', error) };
}
