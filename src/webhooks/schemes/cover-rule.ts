import { hash } from 'node:crypto';
import { GateConfigurationError, type WebhookTrigger } from '../gate.ts';
import { hasPart } from './layout.ts';
import { resolveScheme, type SchemeRegistry } from './resolve.ts';
import type { SignatureSpec } from './spec.ts';
import type { StandardRule } from './standards/standard.ts';

/** Names what digests of a trigger cover. */
export interface CoverRule {
  readonly name: string;
  /** Whether an operator's verifier decides: then only a verified delivery shows it. */
  readonly isByVerifier: boolean;
}

/** The same name for schemes, in each form of the keys, that cover the same, however their fields are written. */
export function coverRule(
  { inputs, keys }: WebhookTrigger,
  { schemes }: { readonly schemes: SchemeRegistry },
): CoverRule {
  const ruleOf = (isByVerifier: boolean, ...parts: readonly unknown[]) => {
    const name = hash('sha256', JSON.stringify(parts)).slice(0, 16);
    return { name, isByVerifier };
  };
  let scheme: ReturnType<typeof resolveScheme>;
  try {
    scheme = resolveScheme(schemes, inputs, keys);
  } catch (error) {
    // The signature gate reports it, and the trigger is not served.
    if (!(error instanceof GateConfigurationError)) throw error;
  }
  if (scheme === undefined) return ruleOf(false, inputs.webhookTimestampHeader?.trim().toLowerCase());
  if (scheme.kind === 'verifier') return ruleOf(true, scheme.verifier.name.toLowerCase());
  if (scheme.kind === 'standard') return ruleOf(false, coveredBy(scheme.standard.rule));
  const forms = [scheme.spec, scheme.previousSpec ?? scheme.spec].map((spec) => JSON.stringify(signedBy(spec)));
  return ruleOf(false, ...new Set(forms.sort()));
}

/** What decides which token or signature names a delivery; another one may have another time. */
const coveredBy = (rule: StandardRule): readonly unknown[] =>
  rule.standard === 'Jwt'
    ? [rule.standard, rule.carrier, rule.header.toLowerCase(), rule.time]
    : [rule.standard, [...new Set(rule.components)].sort(), rule.keyId];

/** What decides which bytes and which time are signed; the unit and length of a time do not change its text. */
const signedBy = ({ signs, timestamp, headers, requestForm, ...spec }: SignatureSpec): object => {
  const isInSignature = timestamp?.in === 'signature';
  return {
    signs,
    timestamp: timestamp && { ...timestamp, unit: undefined, length: undefined },
    headers: headers.map((family) =>
      [
        isInSignature ? family.signature : timestamp?.in === 'header' ? family.timestamp : undefined,
        hasPart(signs, 'deliveryId') ? family.deliveryId : undefined,
      ].map((name) => name?.toLowerCase()),
    ),
    signature: isInSignature && [spec.headerValuePrefix, spec.multiValue],
    requestForm: requestForm && signedBy(requestForm),
  };
};
