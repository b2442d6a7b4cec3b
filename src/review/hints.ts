import { createHmac, randomBytes } from 'node:crypto';
import type { Delivery } from '../model/delivery.ts';
import type { JsonObject } from '../model/json.ts';
import type { SignatureSettings } from '../webhooks/gates/signature.ts';
import type { Judgement } from '../webhooks/pipeline.ts';
import { describeSignature, findMistakes } from '../webhooks/schemes/mistakes.ts';
import { resolveScheme } from '../webhooks/schemes/resolve.ts';
import { calledUrl } from '../webhooks/schemes/signed-url.ts';
import type { SignatureSpec } from '../webhooks/schemes/spec.ts';
import type { PreparedTrigger } from '../webhooks/triggers.ts';

/** What a person is told beside the verdicts. */
export interface Advice {
  /** Sentences, each of which says what would help. */
  readonly hints: readonly string[];
  /** What the signature is made over, and with which keys it was compared; null where there is no spec to say. */
  readonly signature: JsonObject | null;
}

// Keys are told apart by it and by nothing else: it is new with each process and never leaves it, so that a fingerprint
// is no digest that a guess could be tested against.
const FINGERPRINT_KEY = randomBytes(32);

/** Tries the known mistakes on a delivery that was just judged by every gate. */
export function adviseOn(
  delivery: Delivery,
  judgement: Judgement,
  { trigger, settings }: { readonly trigger: PreparedTrigger; readonly settings: SignatureSettings },
): Advice {
  const { keys } = trigger;
  const { inputs } = trigger.trigger;
  const scheme = resolveScheme(settings.schemes, inputs);
  const hints = generalHints(judgement);
  if (scheme?.kind !== 'spec') return { hints, signature: null };
  const { spec } = scheme;
  const { path, requestUrl } = delivery;
  const { url: publicUrl } = calledUrl({
    configuredUrl: inputs.webhookPublicUrl,
    baseUrl: settings.publicUrl,
    path,
    requestUrl,
  });
  const hasFailed = judgement.evidence.isVerified !== true;
  return {
    hints: hasFailed ? [...hints, ...findMistakes({ spec, keys, delivery, publicUrl })] : hints,
    signature: {
      scheme: spec.name,
      ...describe(spec, delivery, publicUrl),
      keys: {
        current: keys.current === undefined ? null : fingerprint(keys.current),
        previous: keys.previous === undefined ? null : fingerprint(keys.previous),
      },
    },
  };
}

function generalHints({ violations, evidence }: Judgement): string[] {
  if (evidence.isVerified !== true) return [];
  const hints: string[] = [];
  if (violations.includes('ip_not_allowed')) hints.push('valid signature, address not listed');
  if (violations.includes('ip_denied')) hints.push('valid signature, address in the deny list');
  if (violations.includes('timestamp_skew')) hints.push(skewHint(evidence.replaySkewMs));
  if (evidence.usedPreviousKey === true) hints.push('verifies with the previous key');
  return hints;
}

function skewHint(skewMs = 0): string {
  const distance = `${Math.abs(skewMs) / 1000} s ${skewMs > 0 ? 'behind' : 'ahead'}`;
  const late = skewMs > 0 ? 'the delivery came late, or ' : '';
  return `valid signature, timestamp ${distance}: ${late}the clock of the sender or of this host is off`;
}

function describe(spec: SignatureSpec, delivery: Delivery, publicUrl: string): JsonObject {
  try {
    return describeSignature({ spec, delivery, publicUrl });
  } catch {
    return { layout: spec.payload.strategy, problem: 'the payload strategy could not build the signed bytes' };
  }
}

/** Tells one key from another while this process runs. */
function fingerprint(key: string): string {
  return createHmac('sha256', FINGERPRINT_KEY).update(key).digest('hex').slice(0, 8);
}
