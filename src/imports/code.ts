import { isDeepStrictEqual } from 'node:util';
import type { WebhookInputs } from '../manifest/webhook-inputs.ts';
import { parseForm, parseSigned } from '../webhooks/schemes/notation.ts';
import { BUILT_IN_SCHEMES } from '../webhooks/schemes/publishers/index.ts';
import { findHmac } from './code-hmac.ts';
import { headersIn, keyVariableIn, nameOf } from './code-reads.ts';
import { signedTextOf } from './code-signed.ts';
import { type CodeNode, type CodeTree, readCode } from './code-tree.ts';
import { type Imported, NotReadable } from './imported.ts';

/** Code that verifies is short; more than this is a program. */
const MOST_CHARACTERS = 256 * 1024;

/** What of a package of a publisher's is called to verify. */
const PACKAGES: readonly (readonly [called: RegExp, imported: RegExp | undefined, scheme: string])[] = [
  [/(?:webhooks\.constructEvent(?:Async)?|Webhook\.construct_event)$/, undefined, 'Stripe'],
  [/^Webhook$/, /^(?:svix|standardwebhooks)\b/, 'StandardWebhooks'],
  [/(?:^|\.)verifyKey(?:Middleware)?$/, /^discord-interactions$/, 'Discord'],
  [/(?:^|\.)validateRequest(?:WithBody)?$/, /^twilio\b/, 'Twilio'],
  [/^RequestValidator$/, undefined, 'Twilio'],
  [/^Webhooks$/, /^@octokit\/webhooks$/, 'GitHub'],
  [/(?:^|\.)verify(?:WithFallback)?$/, /^@octokit\/webhooks-methods$/, 'GitHub'],
];

/** The trigger that a piece of code verifies deliveries for. The code is read and never run; throws where anything of it is not certain. */
export function importCode(text: string): Imported {
  if (text.length > MOST_CHARACTERS)
    throw new NotReadable(`is neither an export nor code of at most ${MOST_CHARACTERS} characters`);
  const tree = readCode(text);
  const scheme = packageIn(tree, text);
  const variable = keyVariableIn(tree);
  const key = { variable };
  if (scheme !== undefined) {
    const notes = [`the code verifies with a package of ${scheme}`];
    return { triggers: [{ name: scheme, verifiedBy: { scheme }, key, notes, notTaken: [] }], leftOut: [] };
  }
  const { inputs, notes, unsure } = read(tree, text);
  if (unsure.length > 0) {
    const known = Object.entries(inputs).map(([field, value]) => `\n  certain: ${field} ${JSON.stringify(value)}`);
    throw new NotReadable(
      `the code does not say all of it for certain${unsure.map((why) => `\n  not certain: ${why}`).join('')}${known.join('')}\nFor a trigger by hand read docs/publishers/custom.md.`,
    );
  }
  const alike = schemesLike(inputs);
  const [only] = alike;
  if (alike.length === 1 && only !== undefined) {
    return { triggers: [{ name: only, verifiedBy: { scheme: only }, key, notes, notTaken: [] }], leftOut: [] };
  }
  const others = alike.length === 0 ? [] : [`${alike.join(', ')} sign so too: sluice new --publisher has more of each`];
  const trigger = {
    name: (inputs.webhookSignatureHeader ?? 'webhook').replace(/^x-/i, ''),
    verifiedBy: { inputs },
    key,
    notes: [...notes, ...others],
    notTaken: [],
  };
  return { triggers: [trigger], leftOut: [] };
}

function packageIn({ calls, texts }: CodeTree, text: string): string | undefined {
  const named = [
    ...texts,
    ...[...text.matchAll(/^[ \t]*(?:from|import)[ \t]+([\w.]+)/gm)].flatMap(([, it]) => it ?? []),
  ];
  return PACKAGES.find(
    ([called, imported]) =>
      calls.some((call) => called.test(nameOf(call.called))) &&
      (imported === undefined || named.some((name) => imported.test(name))),
  )?.[2];
}

interface Read {
  readonly inputs: WebhookInputs;
  readonly notes: readonly string[];
  /** What the code does not say, or says in a way that is not understood. */
  readonly unsure: readonly string[];
}

function read(tree: CodeTree, text: string): Read {
  const unsure: string[] = [];
  const notes: string[] = [];
  const hmac = findHmac(tree);
  if (typeof hmac === 'string') return { inputs: {}, notes, unsure: [hmac] };
  const { algorithm, encoding, keyEncoding } = hmac;
  if (algorithm === undefined) unsure.push('which hash the HMAC has, of those that Sluice verifies');
  if (encoding === undefined) unsure.push('whether the signature is in hex or base64');
  if (keyEncoding === null) unsure.push('what is done to the key before it is used');
  const headers = headersIn(tree);
  const signatures = headers.filter(({ is }) => is === 'signature');
  const [signature] = signatures;
  if (signature === undefined) unsure.push('which header has the signature');
  else if (signatures.length > 1)
    unsure.push(`which header has the signature: ${signatures.map(({ name }) => name).join(', ')}`);
  const form = formOf(tree);
  if (form.unsure !== undefined) unsure.push(form.unsure);
  const signed = signedTextOf(hmac.signed, {
    tree,
    headers,
    hasTimeInForm: form.text?.includes('{timestamp}') === true,
  });
  unsure.push(...signed.unsure);
  notes.push(...signed.notes);
  if (hmac.hasPlainKey) notes.push('the code has the key as text: it is not in the manifest');
  const tolerance = toleranceIn(text);
  if (signed.isTimed && tolerance === undefined)
    notes.push('the code names no age that it refuses: 300 seconds were set');
  const inputs: WebhookInputs = {
    webhookSignatureScheme: 'Custom',
    ...(signature !== undefined && signatures.length === 1 && { webhookSignatureHeader: signature.name }),
    ...(form.text !== undefined && { webhookSignatureForm: form.text }),
    ...(signed.text !== undefined && { webhookSignedPayload: signed.text }),
    ...signed.inputs,
    ...(algorithm !== undefined && { webhookSignatureAlgorithm: algorithm }),
    ...(algorithm === 'sha1' && { webhookAllowSha1: true }),
    ...(encoding !== undefined && { webhookSignatureEncoding: encoding }),
    ...(keyEncoding && { webhookKeyEncoding: keyEncoding }),
    webhookReplayToleranceSeconds: (signed.isTimed ? tolerance : undefined) ?? 300,
  };
  return { inputs, notes, unsure };
}

const PREFIX = /^(?:sha(?:1|256|384|512)|v\d|hmac(?:-?sha\d+)?|signature)[= ]$/i;
const TIME_KEYS = ['t', 'ts', 'time', 'timestamp'];
const SIGNATURE_KEYS = ['v0', 'v1', 'h1', 's', 'sig', 'signature'];

/** What the header looks like; undefined where it holds the signature alone. */
function formOf({ calls, texts, members, joined }: CodeTree): { readonly text?: string; readonly unsure?: string } {
  const splits = calls
    .filter(({ called }) => called.kind === 'member' && called.name === 'split')
    .flatMap(({ given }) => given[0] ?? []);
  const separators = new Set(splits.flatMap((node) => (node.kind === 'text' ? node.text : [])));
  const separator = [',', ';', ', ', '; '].find((it) => separators.has(it));
  const prefixes = new Set(
    [...texts, ...joined.flatMap(({ items }) => (items[0]?.kind === 'text' ? items[0].text : []))].filter((text) =>
      PREFIX.test(text),
    ),
  );
  if (separator !== undefined) {
    const names = new Set([...texts.map((text) => text.replace(/=$/, '')), ...members.map(({ name }) => name)]);
    const [time, ...times] = TIME_KEYS.filter((key) => names.has(key));
    const [key, ...keys] = SIGNATURE_KEYS.filter((name) => names.has(name));
    if (time === undefined || key === undefined || times.length + keys.length > 0)
      return { unsure: `which parts of the header, between "${separator}", are the time and the signature` };
    return { text: `${time}={timestamp}${separator}${key}={signature}` };
  }
  const [prefix, ...others] = prefixes;
  if (others.length > 0) return { unsure: 'what stands in front of the signature in the header' };
  if (prefix !== undefined) return { text: `${prefix}{signature}` };
  if (separators.has('=') || separators.has(' '))
    return { unsure: 'what stands in front of the signature in the header' };
  const cuts = calls.some(({ called, given }) => called.kind === 'member' && isCut(called.name, given));
  return cuts ? { unsure: 'what is cut off the header' } : {};
}

const isCut = (name: string, given: readonly CodeNode[]) =>
  /^(?:slice|substring|substr|removeprefix|lstrip|replace|match|exec|sub)$/.test(name) && given.length > 0;

const SHORTEST_SECONDS = 30;
const LONGEST_SECONDS = 86_400;

/** The one age, in seconds, that something is compared with. */
function toleranceIn(text: string): number | undefined {
  const numbers = [
    ...text.matchAll(/(?:[<>]=? ?|toleran\w{0,20}\W{1,4})((?:\d[\d_]{0,9} ?\* ?){0,4}\d[\d_]{0,9})/gi),
  ].map(([, product = '']) =>
    product.split('*').reduce((all, factor) => all * Number(factor.replaceAll('_', '').trim()), 1),
  );
  const ages = numbers.map((age) => (age > LONGEST_SECONDS ? age / 1000 : age));
  const [age, ...others] = new Set(ages.filter((it) => it >= SHORTEST_SECONDS && it <= LONGEST_SECONDS));
  return others.length === 0 ? age : undefined;
}

/** Names of built-in schemes that sign in the very same way. */
function schemesLike(inputs: WebhookInputs): string[] {
  const header = inputs.webhookSignatureHeader?.toLowerCase();
  const { timestampKey, ...form } = parseForm(inputs.webhookSignatureForm ?? '{signature}');
  const signs = parseSigned(inputs.webhookSignedPayload ?? '{body}');
  return BUILT_IN_SCHEMES.filter(
    (spec) =>
      spec.headers.some(({ signature }) => signature.toLowerCase() === header) &&
      spec.algorithm === inputs.webhookSignatureAlgorithm &&
      spec.encoding === inputs.webhookSignatureEncoding &&
      isDeepStrictEqual(plain(spec.signs), plain(signs)) &&
      (spec.prefix ?? '') === (form.prefix ?? '') &&
      (spec.multiValue === undefined) === (form.multiValue === undefined),
  ).map(({ name }) => name);
}

/** Without what a reader is stricter about. */
const plain = (signs: readonly unknown[]) =>
  signs.map((part) =>
    typeof part === 'object' && part !== null && 'part' in part && part.part === 'body' ? 'body' : part,
  );
