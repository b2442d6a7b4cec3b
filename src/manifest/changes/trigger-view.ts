import type { Json } from '../../model/json.ts';
import type { Trigger } from '../../model/manifest.ts';
import { MASK } from '../mask-secrets.ts';
import { jsonOf } from './json-of.ts';

/** A trigger as a finding shows it: the query of its public URL may hold a secret. */
export function withoutSecrets(trigger: Trigger): Json {
  if (trigger.type !== 'webhook' || trigger.inputs.webhookPublicUrl === undefined) return jsonOf(trigger);
  const inputs = { ...trigger.inputs, webhookPublicUrl: maskedUrl(trigger.inputs.webhookPublicUrl) };
  const masked: object = { ...trigger, inputs };
  return jsonOf(masked);
}

export function maskedUrl(url: string): string {
  return url.replace(/^(https?:\/\/)[^/?#]*@/i, `$1${MASK}@`).replace(/[?#].*$/s, (rest) => `${rest[0]}${MASK}`);
}
