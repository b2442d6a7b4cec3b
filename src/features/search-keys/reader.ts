import { secretHeader } from '../../expressions/delivery-expressions.ts';
import { valueAt } from '../../expressions/json-path.ts';
import type { ArrivingBody } from '../../expressions/trigger-body.ts';
import { errorAt, type Problem } from '../../manifest/issues.ts';
import type { WebhookTrigger } from '../../manifest/webhook-inputs.ts';
import type { Delivery, GateResult } from '../../model/delivery.ts';
import type { Json } from '../../model/json.ts';
import type { DeliveryReader, PreparedKeys } from '../../webhooks/delivery-reader.ts';
import { mayHoldSecret } from '../../webhooks/headers.ts';
import type { ResolvedScheme } from '../../webhooks/schemes/resolve.ts';
import type { FoundValue, SignatureSpec } from '../../webhooks/schemes/spec.ts';
import { mediaTypeOf } from '../../webhooks/schemes/values.ts';
import { type CompiledKey, compileKeys, KEPT, readKeys, toText } from './keys.ts';

/** The name of the gate result, after those of the gates, that reports keys without a value. */
const SEARCH_KEYS = 'searchKeys';

/** The search key for the kind of event. */
const EVENT = 'event';

/** Keys that would store a credential, or a signature of the trigger's scheme. `keyMistakes` finds the others. */
function problems(
  { triggerKey, inputs, searchKeys = {} }: WebhookTrigger,
  scheme: ResolvedScheme | undefined,
): Problem[] {
  const signed =
    scheme?.kind === 'spec'
      ? scheme.spec.headers.flatMap(({ signature, furtherSignatures = [] }) => [signature, ...furtherSignatures])
      : [];
  const code = scheme?.kind === 'verifier' ? scheme.verifier.headers : undefined;
  const own = scheme?.kind === 'standard' ? scheme.standard.headers : (code ?? []);
  const secret = new Set(
    [...signed, ...own, ...[inputs.webhookSignatureHeader ?? []].flat()].map((name) => name.trim().toLowerCase()),
  );
  const fields = scheme?.kind === 'spec' ? (scheme.spec.signatureFields ?? []) : [];
  return compileKeys(searchKeys).keys.flatMap(({ name, headers, expression }) => {
    const at = ['triggers', triggerKey, 'searchKeys', name];
    const header = headers.find((each) => secret.has(each) || mayHoldSecret(each));
    if (header !== undefined) return [errorAt(at, secretHeader(header, KEPT))];
    const read = expression.references.map(({ path }) => path.join('.').replace(/^envelope\b/, 'body'));
    const isSignature = fields.some(({ path, formField }) =>
      read.some((each) => [`body.${path.join('.')}`, `body.${formField}`].includes(each)),
    );
    return isSignature ? [errorAt(at, `reads a signature; ${KEPT}`)] : [];
  });
}

/** The keys of a trigger: those of its manifest, and those of its scheme unless the manifest overrides or disables them. */
function prepare({ searchKeys }: WebhookTrigger, scheme: ResolvedScheme | undefined): PreparedKeys | undefined {
  const named = Object.keys(searchKeys ?? {});
  const isNone = searchKeys !== undefined && named.length === 0;
  const published = isNone ? [] : publishedKeys(scheme).filter(([name]) => !named.includes(name));
  const { keys } = compileKeys(searchKeys ?? {});
  const headers = published.flatMap(([name, value]) =>
    'headers' in value ? [[name, value.headers.map((header) => header.toLowerCase())] as const] : [],
  );
  const inBody = published.flatMap(([name, value]) => ('path' in value ? [[name, value] as const] : []));
  if (published.length === 0 && keys.length === 0) return undefined;
  const event = keys.find(({ name }) => name === EVENT)?.expression ?? published.find(([name]) => name === EVENT)?.[1];
  if (inBody.length === 0 && keys.length === 0) return { headers, event };
  return {
    headers,
    event,
    readOthers(sent, body, values) {
      for (const [name, { path, mediaType }] of inBody) {
        if (mediaType !== undefined && mediaTypeOf(sent) !== mediaType) continue;
        const text = values[name] === undefined ? textAt(body, path) : undefined;
        if (text !== undefined) values[name] = text;
      }
      return keys.length === 0 ? undefined : readNamed(keys, { headers: sent, body, values });
    },
  };
}

function readNamed(
  keys: readonly CompiledKey[],
  { headers, body, values }: { headers: Delivery['headers']; body: ArrivingBody; values: Record<string, string> },
): GateResult | undefined {
  const read = readKeys(keys, { headers, body: () => body.value(), envelope: () => body.envelope() });
  Object.assign(values, read.values);
  if (read.problems.length === 0) return undefined;
  const detail = read.problems.join('; ');
  return { gate: SEARCH_KEYS, outcome: 'not evaluated', reason: null, detail, facts: {} };
}

/** The type of an event and its id, if the publisher has them, in each form of its deliveries. */
function publishedKeys(scheme: ResolvedScheme | undefined): (readonly [string, FoundValue])[] {
  const publisher = scheme?.kind === 'standard' ? scheme.standard.publisher : undefined;
  if (publisher !== undefined) return keysOfForm({ ...publisher, headers: [] });
  if (scheme?.kind !== 'spec') return [];
  const { spec } = scheme;
  const isOpen = spec.eventType === undefined || spec.name === 'Generic';
  if (isOpen) return [...keysOfForm(spec), ...CLOUD_EVENT];
  return [spec, ...(spec.requestForm === undefined ? [] : [spec.requestForm])].flatMap(keysOfForm);
}

/** If the scheme defines no event type, try CloudEvents: in binary mode (headers) or structured mode (the body). */
const CLOUD_EVENT: (readonly [string, FoundValue])[] = [
  [EVENT, { headers: ['ce-type'] }],
  ['id', { headers: ['ce-id'] }],
  [EVENT, { path: ['type'], mediaType: 'application/cloudevents+json' }],
  ['id', { path: ['id'], mediaType: 'application/cloudevents+json' }],
];

function keysOfForm({
  eventType,
  eventId,
  headers,
}: Pick<SignatureSpec, 'eventType' | 'eventId' | 'headers'>): (readonly [string, FoundValue])[] {
  const inHeaders = headers.flatMap(({ deliveryId }) => deliveryId ?? []);
  const id = eventId ?? (inHeaders.length === 0 ? undefined : { headers: inHeaders });
  return (
    [
      [EVENT, eventType],
      ['id', id],
    ] as const
  ).flatMap(([name, value]) => (value === undefined || 'none' in value ? [] : [[name, value] as const]));
}

function textAt(body: ArrivingBody, path: readonly string[]): string | undefined {
  const parsed = body.parsed();
  const value = valueAt('error' in parsed ? null : (parsed.envelope ?? parsed.value), path);
  const isText = typeof value === 'string' || typeof value === 'boolean' || Number.isSafeInteger(value);
  return isText ? toText(value as Json, '') : undefined;
}

export const searchKeysReader: DeliveryReader = { name: 'search-keys', problems, prepare };
