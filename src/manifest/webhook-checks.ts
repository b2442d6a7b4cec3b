import type { JsonPath } from '../expressions/json-path.ts';
import type { WebhookInputs, WebhookTrigger } from '../model/manifest.ts';
import { errorAt, gateWarningAt, type Problem, warningAt } from './issues.ts';
import { isMasked, MASK, maskUrl } from './mask-url.ts';
import type { SecretReader } from './read-secret.ts';
import { isReference, resolveSecret } from './secrets.ts';
import { isHttpUrl, KEY_WEBHOOK_FIELDS, SECRET_WEBHOOK_FIELDS } from './webhook-inputs.ts';

type SecretField = (typeof SECRET_WEBHOOK_FIELDS)[number];
type Secrets = Pick<WebhookTrigger, 'keys' | 'verifyToken' | 'hasConflictingKeys'>;

/** Reads the secrets of a webhook trigger. The present name of a key wins over its legacy name, whatever either holds. */
export function resolveTriggerSecrets(
  inputs: WebhookInputs,
  path: JsonPath,
  readSecret: SecretReader,
): Secrets & { readonly problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const values = new Map<SecretField, string>();
  for (const field of SECRET_WEBHOOK_FIELDS) {
    const text = inputs[field];
    if (text === undefined) continue;
    const fieldPath = [...path, field];
    const secret = resolveSecret(text, readSecret);
    if ('error' in secret) problems.push(errorAt(fieldPath, secret.error));
    else values.set(field, secret.value);
    if (text === MASK) problems.push(errorAt(fieldPath, 'is the mask that is shown in place of a secret, and no key'));
    else if (text === '') problems.push(warningAt(fieldPath, `is empty: that is no ${nounOf(field)}`));
    else if (!isReference(text)) problems.push(plainTextSecret(fieldPath));
  }
  let hasConflictingKeys = false;
  for (const [field, legacy] of KEY_NAMES) {
    if (inputs[field] === undefined || inputs[legacy] === undefined) continue;
    hasConflictingKeys = true;
    problems.push(warningAt([...path, legacy], `is not read: "${field}" is set too, and wins`));
  }
  const keyOf = (field: SecretField, legacy: SecretField) =>
    (inputs[field] === undefined ? values.get(legacy) : values.get(field)) || undefined;
  const [[current, legacyCurrent], [previous, legacyPrevious]] = KEY_NAMES;
  const keys = { current: keyOf(current, legacyCurrent), previous: keyOf(previous, legacyPrevious) };
  const verifyToken = values.get('webhookVerifyToken') || undefined;
  return { keys, verifyToken, hasConflictingKeys, problems };
}

/** The public URL of a webhook trigger read: a reference resolved, a literal as it is. */
export function resolvePublicUrl(
  inputs: WebhookInputs,
  path: JsonPath,
  readSecret: SecretReader,
): { readonly inputs: WebhookInputs; readonly problems: readonly Problem[] } {
  const { webhookPublicUrl: text } = inputs;
  if (text === undefined) return { inputs, problems: [] };
  const at = [...path, 'webhookPublicUrl'];
  if (isReference(text)) {
    const url = resolveSecret(text, readSecret);
    if ('error' in url) return { inputs, problems: [errorAt(at, url.error)] };
    if (isHttpUrl(url.value)) return { inputs: { ...inputs, webhookPublicUrl: url.value }, problems: [] };
    return { inputs, problems: [errorAt(at, 'refers to something that is no absolute http or https URL')] };
  }
  if (isMasked(text))
    return {
      inputs,
      problems: [
        errorAt(at, 'holds the mask that is shown in place of a secret: signatures over the URL do not verify'),
      ],
    };
  if (maskUrl(text) === text) return { inputs, problems: [] };
  const why =
    'holds user information, a query or a fragment in plain text, which is masked where the manifest is stored and ' +
    'shown; env:NAME or file:PATH keeps it out of the manifest and lets a stored revision work without the file';
  return { inputs, problems: [warningAt(at, why)] };
}

function nounOf(field: SecretField): string {
  return field === 'webhookVerifyToken' ? 'token' : 'key';
}

const KEY_NAMES = [
  ['webhookHmacKey', 'webhookSecret'],
  ['webhookHmacKeyPrevious', 'webhookSecretPrevious'],
] as const satisfies readonly (readonly [SecretField, SecretField])[];

export function plainTextSecret(path: JsonPath): Problem {
  return warningAt(path, 'holds a secret in plain text; env:NAME or file:PATH keeps it out of the manifest');
}

/** Fields that need each other, and what looks like a gate but is none. */
export function checkGates(inputs: WebhookInputs, path: JsonPath): Problem[] {
  const problems: Problem[] = [];
  const at = (field: keyof WebhookInputs) => [...path, field];
  const { webhookSignatureScheme: scheme } = inputs;

  // What scheme Custom needs, the signature gate says itself when it is prepared.
  const isCustom = scheme?.trim().toLowerCase() === 'custom';
  const isUnnamed = inputs.webhookSignedPayloadStrategy === 'Custom' && inputs.webhookCustomStrategyName === undefined;
  if (!isCustom && isUnnamed) {
    problems.push(errorAt(at('webhookCustomStrategyName'), 'is missing; strategy Custom needs it'));
  }
  const keyField = KEY_WEBHOOK_FIELDS.find((field) => inputs[field] !== undefined);
  if (scheme === undefined && keyField !== undefined) {
    const reason = 'webhookSignatureScheme is not set: the signature gate is not configured';
    problems.push(gateWarningAt(at(keyField), `no signature is checked with it, because ${reason}`));
  }
  const ipField = IP_FIELDS.find((field) => inputs[field] !== undefined);
  if (ipField !== undefined && OTHER_GATE_FIELDS.every((field) => !inputs[field])) {
    problems.push(gateWarningAt(at(ipField), 'is the only gate: whoever can send from these addresses is trusted'));
  }
  return problems;
}

const IP_FIELDS = [
  'webhookIpAllowList',
  'webhookIpAllowListPreset',
  'webhookIpAllowListPresets',
  'webhookIpDenyList',
] as const satisfies readonly (keyof WebhookInputs)[];

/** Any of them, set and not 0, configures a gate beside the IP gate. */
const OTHER_GATE_FIELDS = [
  'webhookSignatureScheme',
  'webhookRateLimitPermitsPerSecond',
  'webhookReplayToleranceSeconds',
  'webhookNonceHeader',
] as const satisfies readonly (keyof WebhookInputs)[];
