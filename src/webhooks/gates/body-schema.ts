import type { GatePlugin, Verdict } from '../gate.ts';
import { type KeepBody, prepareKeptBody } from '../kept-body.ts';
import { type ResolvedScheme, resolveScheme } from '../schemes/resolve.ts';
import type { SignatureSpec } from '../schemes/spec.ts';
import { documentOf } from '../schemes/values.ts';
import { createDearTurns, type DearTurns } from './dear-turns.ts';
import { AnswerTimeoutError, answerInTime, failureOf } from './operator-gate.ts';
import type { SignatureSettings } from './signature.ts';

export const BODY_SCHEMA = 'bodySchema';
/** What is shorter is judged at once: it is most of what arrives, and costs less than to wait for a turn. */
const LONG_BYTES = 8192;

/**
 * Whether the body fits the schema that the trigger names. It judges what is authentic and new, so it comes last of the
 * built-in gates. A body that says it is JSON and is not is refused behind the gates, in every mode.
 *
 * A long body may take a fifth of a second by a schema that asks for much, so that of several at once the process would do
 * nothing else: they take turns.
 */
export function bodySchemaGate(): GatePlugin<SignatureSettings> {
  let turns: DearTurns | undefined;
  return {
    name: BODY_SCHEMA,
    prepare(trigger, { schemes, clock, verifierTimeLimitMs }) {
      const { bodySchema } = trigger;
      if (bodySchema === undefined) return undefined;
      // It describes what a flow reads. Asked with the first delivery: a scheme that makes no sense is told once, by the signature gate.
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
          // What cannot be decoded is refused behind the gates, as what is not JSON is.
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

/** No fault of the sender's, who may send it again. */
function unjudged(error: unknown): Verdict {
  if (!(error instanceof AnswerTimeoutError)) throw error;
  return { passed: false, reason: 'verification_unavailable', detail: failureOf('the check of its body', error) };
}
