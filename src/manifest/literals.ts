import { formatPath, type JsonPath, mapStrings } from '../expressions/json-path.ts';
import type { Json } from '../model/json.ts';
import { maskUrl } from './mask.ts';
import { isReference } from './read-secret.ts';
import type { Manifest } from './schema.ts';
import { graphSecrets } from './secrets.ts';
import { objectSecrets } from './trigger-objects.ts';
import { textsIn, WEBHOOK_FIELDS } from './webhook-fields.ts';

type WithSecrets = Pick<Manifest, 'triggers' | 'steps'>;

/** Secrets in plain text, by their places in the manifest: a snapshot has a mask there. */
export function literalsOf(
  { triggers, steps }: WithSecrets,
  secretInputs: (stepType: string) => readonly string[],
): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const add = (path: JsonPath, text: string | undefined) => {
    if (text !== undefined && text !== '' && !isReference(text)) found.set(formatPath(path), text);
  };
  for (const [key, trigger] of Object.entries(triggers)) {
    if (trigger.type !== 'webhook') continue;
    const { inputs } = trigger;
    const path = ['triggers', key, 'inputs'];
    for (const { at, text } of WEBHOOK_FIELDS.secret.flatMap((field) => textsIn(inputs, field)))
      add([...path, ...at], text);
    for (const { path: at, text } of objectSecrets(trigger)) add(['triggers', key, ...at], text);
    const { webhookPublicUrl: url } = inputs;
    if (url !== undefined && maskUrl(url) !== url) add([...path, 'webhookPublicUrl'], url);
  }
  for (const { path, text } of graphSecrets(steps, secretInputs)) add(path, text);
  return found;
}

/** The manifest with these texts in place of its masks. */
export function withLiterals<Written extends object>(
  manifest: Written,
  literals: ReadonlyMap<string, string | null>,
): Written {
  if (literals.size === 0) return manifest;
  const fill = (text: string, path: JsonPath) => literals.get(formatPath(path)) ?? text;
  return mapStrings(manifest as unknown as Json, fill) as unknown as Written;
}
