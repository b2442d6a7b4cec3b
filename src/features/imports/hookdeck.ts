import type { WebhookInputs } from '../../manifest/webhook-inputs.ts';
import {
  type Imported,
  type ImportedKey,
  type ImportedTrigger,
  listOf,
  type Members,
  membersOf,
  NotReadable,
  objectsIn,
  quoted,
  schemeCalled,
  textOf,
} from './imported.ts';

/** Names that differ between Hookdeck and Sluice. */
const OTHER_NAMES: Readonly<Record<string, string>> = { AWS_SNS: 'AmazonSns' };

/** Types of sources that do not determine the verification. */
const GENERIC = ['', 'WEBHOOK', 'HTTP', 'MANAGED', 'PUBLISH_API'];

/** The verification of a source, whichever release of the API, the CLI or Terraform wrote it. */
interface Verification {
  /** In capitals, such as `STRIPE` or `HMAC`; undefined without verification, and `UNTOLD` if the file does not say. */
  readonly kind: string | undefined;
  readonly values: Members | undefined;
  /** Place of the values. */
  readonly at: string;
}

/**
 * Sources of Hookdeck: an answer of its API or CLI about sources or connections, or `terraform show -json`. Shapes: hookdeck.com/docs/api
 * (2024-09 and 2025-07) and terraform-provider-hookdeck 2, read 2026-11.
 */
export function readHookdeck(document: unknown): Imported {
  const found = new Map<string, { readonly source: Members; readonly connections: Members[] }>();
  const verifications = new Map<string, Verification>();
  const add = (source: Members, connection?: Members) => {
    const name = textOf(source.id) ?? textOf(source.name) ?? '';
    const known = found.get(name) ?? { source, connections: [] };
    if (connection !== undefined) known.connections.push(connection);
    found.set(name, known);
  };
  for (const members of objectsIn(document, (it, path) => !isSource(it) && path.at(-1) !== 'destination')) {
    const resource = terraformResource(members);
    if (resource !== undefined) {
      const { type, values } = resource;
      const sourceId = textOf(values.source_id);
      if (/_source$/.test(type)) add(values);
      else if (sourceId !== undefined && /_source_(auth|verification)$/.test(type))
        verifications.set(sourceId, ofTerraform(values));
    } else if (isSource(members)) add(members);
    else if (membersOf(members.source) !== undefined && membersOf(members.destination) !== undefined)
      add(membersOf(members.source) ?? {}, members);
  }
  if (found.size === 0) throw new NotReadable('there is no source in it');
  const triggers: ImportedTrigger[] = [];
  const leftOut: string[] = [];
  for (const { source, connections } of found.values()) {
    const beside = verifications.get(textOf(source.id) ?? '');
    const verification = beside === undefined ? ofSource(source) : ofBoth(source, beside);
    const trigger = triggerOf(source, connections, verification);
    if (typeof trigger === 'string') leftOut.push(`the source ${quoted(nameOf(source))}: ${trigger}`);
    else triggers.push(trigger);
  }
  return { triggers, leftOut };
}

const nameOf = (source: Members) => textOf(source.name) ?? 'source';

/** Destinations also have a name, a type and a `config`, but theirs has a URL. */
function isSource(members: Members): boolean {
  const { name, type, verification, config, allowed_http_methods: methods, url } = members;
  if (typeof name !== 'string' || 'source' in members || 'destination' in members) return false;
  const { url: target, path, auth_method: authMethod } = configOf(config) ?? {};
  if (target !== undefined || path !== undefined || authMethod !== undefined) return false;
  const isTyped = typeof type === 'string' && /^[A-Z0-9_]+$/.test(type);
  return isTyped || verification !== undefined || methods !== undefined || /hookdeck|hkdk/.test(textOf(url) ?? '');
}

function terraformResource(members: Members): { readonly type: string; readonly values: Members } | undefined {
  const type = textOf(members.type);
  const values = membersOf(members.values) ?? membersOf(membersOf(listOf(members.instances)[0])?.attributes);
  return type?.startsWith('hookdeck_') && values !== undefined ? { type, values } : undefined;
}

/** Terraform writes it as JSON text. */
function configOf(config: unknown): Members | undefined {
  if (typeof config !== 'string') return membersOf(config);
  try {
    return membersOf(JSON.parse(config));
  } catch {
    return undefined;
  }
}

/** A source's auth from a separate Terraform resource; without a type, it has the type of the source. */
function ofBoth(source: Members, beside: Verification): Verification {
  const named = textOf(source.type)?.toUpperCase() ?? '';
  const ofType = GENERIC.includes(named) ? kindOf(beside.values) : named;
  return { ...beside, kind: beside.kind ?? ofType ?? UNTOLD };
}

function ofTerraform(values: Members): Verification {
  const { auth_type: type, auth, verification } = values;
  if (verification === undefined) return { kind: textOf(type)?.toUpperCase(), values: configOf(auth), at: 'auth' };
  const [kind, given] = Object.entries(membersOf(verification) ?? {}).find(([, it]) => membersOf(it)) ?? [];
  return { kind: kind?.toUpperCase(), values: membersOf(given), at: `verification.${kind ?? ''}` };
}

function ofSource({ type, config: given, verification, authenticated }: Members): Verification {
  if (isGiven(verification)) {
    const former = membersOf(verification) ?? {};
    const kind = textOf(former.type)?.toUpperCase().replaceAll('-', '_') ?? UNTOLD;
    return { kind, values: membersOf(former.configs), at: 'verification.configs' };
  }
  const config = configOf(given);
  const values = membersOf(config?.auth);
  const at = 'config.auth';
  const named = textOf(type)?.toUpperCase() ?? '';
  if (!GENERIC.includes(named)) return { kind: named, values, at };
  const kind = textOf(config?.auth_type)?.toUpperCase() ?? kindOf(values);
  const isUnread = isGiven(given) && config === undefined;
  const isMore = authenticated === true || isUnread || isGiven(config?.auth) || isGiven(config?.auth_type);
  return { kind: kind ?? (isMore ? UNTOLD : undefined), values, at };
}

const UNTOLD = '?';

const isGiven = (value: unknown) => value !== undefined && value !== null;

function kindOf(values: Members | undefined): string | undefined {
  if (values?.algorithm !== undefined) return 'HMAC';
  if (values?.api_key !== undefined) return 'API_KEY';
  return values?.password === undefined ? undefined : 'BASIC_AUTH';
}

const AS_AUTH = 'ask its API with include=config.auth';

/** The trigger, or the reason why there is none. */
function triggerOf(
  source: Members,
  connections: readonly Members[],
  { kind, values, at }: Verification,
): ImportedTrigger | string {
  if (source.disabled_at !== undefined && source.disabled_at !== null) return 'it is disabled there';
  const config = configOf(source.config) ?? source;
  const methods = Object.values(membersOf(config.allowed_http_methods) ?? listOf(config.allowed_http_methods));
  if (methods.length > 0 && !methods.includes('POST')) return 'it takes no POST, and a trigger nothing else';
  const common = {
    name: nameOf(source),
    notes: [],
    notTaken: [
      ...(methods.includes('GET') ? ['it also takes GET, and a trigger POST alone'] : []),
      ...(membersOf(config.custom_response) === undefined ? [] : ['the custom response: see webhookResponse']),
      ...connections.flatMap(remarksOn),
    ],
  };
  if (kind === undefined) return { ...common, verifiedBy: undefined };
  if (kind === UNTOLD) return `the file does not say how it is verified: ${AS_AUTH}`;
  const fields = fieldsOf(kind, values ?? {});
  if (typeof fields === 'string') return fields;
  if (fields !== undefined) return { ...common, verifiedBy: { inputs: fields }, key: keyOf(values, at) };
  const scheme = schemeCalled(OTHER_NAMES[kind] ?? kind);
  if (scheme === undefined) return `Sluice has no scheme for ${quoted(kind)}`;
  return { ...common, verifiedBy: { scheme }, key: keyOf(values, at) };
}

/** Fields for a verification of no particular publisher, or why there are none; undefined for a publisher. */
function fieldsOf(kind: string, values: Members): WebhookInputs | string | undefined {
  const header = textOf(values.header_key);
  if (kind === 'BASIC_AUTH' || kind === 'POSTMARK') return { webhookSignatureScheme: 'Basic' };
  if (kind === 'API_KEY') {
    if (header === undefined) return `the file does not say which header has the key: ${AS_AUTH}`;
    return { webhookSignatureScheme: 'Token', webhookSignatureHeader: header };
  }
  if (kind !== 'HMAC') return undefined;
  const algorithm = (['sha1', 'sha256', 'sha384', 'sha512'] as const).find((it) => it === values.algorithm);
  const encoding = values.encoding === 'base64' ? 'base64' : values.encoding === 'hex' ? 'hexLower' : undefined;
  if (values.algorithm === 'md5') return 'it verifies with MD5, which Sluice does not';
  if (header === undefined || algorithm === undefined || encoding === undefined)
    return `the file does not have header, algorithm and encoding of the HMAC: ${AS_AUTH}`;
  return {
    webhookSignatureScheme: 'Custom',
    webhookSignatureHeader: header,
    webhookSignatureAlgorithm: algorithm,
    webhookSignatureEncoding: encoding,
    ...(algorithm === 'sha1' && { webhookAllowSha1: true }),
  };
}

/** The members that can hold the key, which Hookdeck names by publisher. */
const KEYS = ['webhook_secret_key', 'api_key', 'public_key', 'webhook_id', 'password'] as const;

function keyOf(values: Members | undefined, at: string): ImportedKey {
  const name = KEYS.find((key) => textOf(values?.[key]) !== undefined);
  if (name === undefined) return {};
  const user = values?.username === undefined ? 'name' : 'username';
  return { at: name === 'password' ? `${at}.${user}, a colon and ${at}.password` : `${at}.${name}` };
}

function remarksOn({ name, rules, destination, disabled_at: disabledAt }: Members): string[] {
  const about = `the connection ${quoted(textOf(name) ?? '')}`;
  const types = listOf(rules).flatMap((rule) => textOf(membersOf(rule)?.type) ?? []);
  return [
    ...(disabledAt === undefined || disabledAt === null ? [] : [`${about} is disabled there`]),
    ...(types.length === 0 ? [] : [`rules of ${about}: ${types.map(quoted).join(', ')}`]),
    ...(destination === undefined ? [] : [`the destination of ${about}: --forward sends deliveries on to a URL`]),
  ];
}
