import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { type Command, Option } from 'commander';
import { CommandError, openContext, reporting } from '../../commands/context.ts';
import type { CommandPart } from '../../commands/part.ts';
import type { Settings } from '../../config/settings-schema.ts';
import { formatIssue, type ManifestIssue } from '../../manifest/issues.ts';
import type { LoadedFlow } from '../../manifest/load.ts';
import { maskUrl } from '../../manifest/mask.ts';
import { isReference } from '../../manifest/read-secret.ts';
import { asName } from '../../manifest/schema.ts';
import type { WebhookInputs } from '../../manifest/webhook-inputs.ts';
import { GUID } from '../../model/manifest.ts';
import { printable } from '../../model/text.ts';
import { print } from '../../telemetry/terminal.ts';
import { commandHere } from '../../version.ts';
import {
  flowsIn,
  forwardingTo,
  forwardLines,
  hostLines,
  mistakeInSlug,
  mistakeInUrl,
  modeNamed,
  type NewFlow,
  type NewManifest,
  placeOfReference,
  publisherManifest,
  referencesOf,
  refuseMistakes,
  urlOf,
  writeManifests,
} from '../new/new-manifest.ts';
import { knownPublishers, type Publisher } from '../new/publishers.ts';
import { type NewOptions, writeNew } from '../new/write-new.ts';
import { readHookdeck } from './hookdeck.ts';
import { type Imported, type ImportedTrigger, NotReadable, quoted } from './imported.ts';
import { readN8n } from './n8n.ts';
import { readNgrok } from './ngrok.ts';
import { readSvix } from './svix.ts';

/** Services whose exports `new --from` reads. */
export const IMPORTED_KINDS = ['hookdeck', 'svix', 'n8n', 'ngrok'] as const;
type ImportedKind = (typeof IMPORTED_KINDS)[number];

/** Reads the document of each service's export. */
const EXPORTS: Readonly<Record<ImportedKind, (document: unknown) => Imported>> = {
  hookdeck: readHookdeck,
  svix: readSvix,
  n8n: readN8n,
  ngrok: readNgrok,
};

interface FromOptions extends NewOptions {
  readonly from: ImportedKind;
}

/** Adds `--from` to `new`. */
function addFrom(command: Command): void {
  command
    .argument('[file]', 'with --from: the export; - for standard input')
    .addOption(
      new Option('--from <kind>', 'read the triggers from an export of another service').choices(IMPORTED_KINDS),
    )
    .addHelpText('after', 'With --from, exits with 1 if something of the file has no place here.')
    .action(
      reporting(async (file: string | undefined, options: NewOptions & Partial<FromOptions>, own: Command) => {
        const { from } = options;
        if (from !== undefined) return writeImported(file, { ...options, from });
        if (file === undefined) return writeNew(options, own);
        throw new CommandError(`new: "${file}" is read with --from ${IMPORTED_KINDS.join('|')}`);
      }),
    );
}

/** Writes a manifest for each trigger of an export, or none; the exit code says whether everything was taken over. */
async function writeImported(path: string | undefined, options: FromOptions): Promise<void> {
  if (path === undefined) throw new CommandError('--from: name the file with the export, or - for standard input');
  const mistake = mistakeIn(options);
  if (mistake !== undefined) throw new CommandError(mistake);
  const { triggers, leftOut } = await imported(path, options.from);
  const left = leftOut.map((what) => `Left out: ${what}`);
  if (triggers.length === 0) throw new CommandError(['Nothing was written.', ...left].join('\n'));
  if (triggers.length > 1 && (options.slug ?? options.name ?? options.key) !== undefined)
    throw new CommandError(`--slug, --name and --key are for one trigger, and the file has ${triggers.length}`);
  const context = await openContext(options.manifests);
  const folder = options.manifests ?? context.settings.manifests;
  const publishers = knownPublishers();
  const flows = await flowsIn(folder, context);
  const slugs = slugsFor(triggers, options.slug, flows);
  const variables = variablesIn(flows);
  const written = triggers.map((trigger, at) => {
    const flow = flowOf(trigger, slugs[at] ?? '', { ...options, variables });
    const manifest = manifestOf(trigger, flow, { publishers, settings: context.settings });
    const file = join(folder, `${flow.slug}.json`);
    return { trigger, flow, manifest, file, warnings: refuseMistakes(manifest, file, context) };
  });
  await writeManifests(folder, new Map(written.map(({ file, manifest }) => [file, manifest])), context);
  const lines = [
    ...written.flatMap((one) => [...linesOn(one, context.settings), '']),
    ...left,
    ...(left.length > 0 ? [''] : []),
  ];
  print(`${[...lines, ...whatIsLeft(), ...hostLines(context.settings)].join('\n')}\n`);
  if (leftOut.length > 0 || triggers.some(({ notTaken }) => notTaken.length > 0)) process.exitCode = 1;
}

const whatIsLeft = () => [
  'Then:',
  `  ${commandHere()} check             says what the manifests leave open`,
  `  ${commandHere()} reload            has a running service read them and their keys`,
  `  ${commandHere()} send SLUG         sends a signed sample delivery, where the key is a secret`,
  '  enter the new URL at the publisher, in place of the former one',
];

function mistakeIn({ publisher, generateKey, key, forward }: FromOptions): string | undefined {
  if (publisher !== undefined) return '--publisher: with --from the file says who sends';
  if (generateKey === true) return '--generate-key: with --from the publisher has a key already';
  if (key !== undefined && !isReference(key))
    return '--key: expected env:NAME or file:PATH: the key stays out of the manifest';
  const mistake = forward === undefined ? undefined : mistakeInUrl(forward);
  return mistake === undefined ? undefined : `--forward: ${mistake}`;
}

/** Exports are small; a larger file is probably the wrong one. */
const MOST_BYTES = 4 * 1024 * 1024;

async function imported(path: string, kind: ImportedKind) {
  try {
    return readImport(kind, await readText(path));
  } catch (error) {
    if (error instanceof NotReadable)
      throw new CommandError(`${path === '-' ? 'standard input' : path}: ${error.message}`);
    throw error;
  }
}

async function readText(path: string): Promise<string> {
  const stream: Readable = path === '-' ? process.stdin : createReadStream(path);
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of stream) {
      chunks.push(Buffer.from(chunk));
      size += chunk.length;
      if (size > MOST_BYTES) throw new NotReadable(`is larger than ${MOST_BYTES / 1024 / 1024} MiB`);
    }
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
  } catch (error) {
    if (error instanceof NotReadable) throw error;
    throw new NotReadable(
      error instanceof TypeError ? 'is not UTF-8 text' : error instanceof Error ? error.message : String(error),
    );
  }
}

/** One unused slug for each trigger, from its name. */
function slugsFor(
  triggers: readonly ImportedTrigger[],
  given: string | undefined,
  flows: readonly LoadedFlow[],
): string[] {
  const taken = new Set<string>();
  return triggers.map(({ name }) => {
    const slug = given ?? slugOf(name);
    let free = slug;
    for (let count = 2; taken.has(free.toLowerCase()); count += 1) free = `${slug}-${count}`;
    taken.add(free.toLowerCase());
    const mistake = mistakeInSlug(free, flows);
    if (mistake !== undefined) throw new CommandError(triggers.length === 1 ? mistake : `${quoted(name)}: ${mistake}`);
    return free;
  });
}

const MOST_CHARACTERS = 64;

function slugOf(name: string): string {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/\p{M}/gu, '')
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, MOST_CHARACTERS)
    .replace(/^-|-$/g, '');
  if (GUID.test(slug)) return `webhook-${slug}`;
  return slug === '' ? 'webhook' : slug;
}

/** Variables that other flows read: a new secret must not replace them. */
function variablesIn(flows: readonly LoadedFlow[]): ReadonlySet<string> {
  const texts = flows.flatMap(({ webhooks }) => webhooks.flatMap(({ inputs }) => Object.values(inputs)));
  return new Set(texts.flatMap((text) => (typeof text === 'string' && isReference(text) ? text.toLowerCase() : [])));
}

function flowOf(
  { name, verifiedBy, inputs }: ImportedTrigger,
  slug: string,
  { variables, ...options }: FromOptions & { readonly variables: ReadonlySet<string> },
): NewFlow {
  const own = `${variableOf(slug)}_KEY`;
  let free = own;
  for (let count = 2; variables.has(`env:${free}`.toLowerCase()); count += 1) free = `${own}_${count}`;
  return {
    name: options.name ?? asName(name),
    slug,
    key: verifiedBy === undefined ? undefined : (options.key ?? `env:${free}`),
    mode: options.mode === undefined ? (inputs?.webhookEnforcementMode ?? 'Enforce') : modeNamed(options.mode),
    forward: options.forward,
  };
}

/** A variable name for each slug: no two slugs share one, and none begins with a digit. */
function variableOf(slug: string): string {
  const name = slug.replace(/[^A-Za-z0-9]/g, '_').toUpperCase();
  return /^\d/.test(name) ? `_${name}` : name;
}

function manifestOf(
  { verifiedBy, inputs = {} }: ImportedTrigger,
  flow: NewFlow,
  { publishers, settings }: { readonly publishers: readonly Publisher[]; readonly settings: Settings },
): NewManifest {
  if (verifiedBy !== undefined && 'scheme' in verifiedBy) {
    const publisher = publishers.find((it) => it.inputs.webhookSignatureScheme === verifiedBy.scheme);
    if (publisher === undefined) throw new CommandError(`No known publisher signs as ${verifiedBy.scheme}`);
    // A publisher without a key field sends its key itself, and does so again.
    const key = publisher.inputs.webhookHmacKey === undefined ? undefined : flow.key;
    return withInputs(publisherManifest({ ...flow, key, publisher }, settings), {
      ...inputs,
      ...(publisher.inputs.webhookVerifyToken !== undefined && {
        webhookVerifyToken: `env:${variableOf(flow.slug)}_TOKEN`,
      }),
    });
  }
  const own: WebhookInputs = {
    webhookSlug: flow.slug,
    ...verifiedBy?.inputs,
    ...(flow.key !== undefined && { webhookHmacKey: flow.key }),
    // Without a signed time, the same body is accepted once.
    ...(verifiedBy !== undefined && {
      webhookReplayToleranceSeconds: verifiedBy.inputs.webhookReplayToleranceSeconds ?? 300,
      webhookDuplicateResponse: 'acknowledge' as const,
    }),
    ...inputs,
    webhookEnforcementMode: flow.mode,
  };
  return {
    $schema: './manifest.schema.json',
    id: randomUUID(),
    name: flow.name,
    version: '1',
    triggers: { [flow.slug]: { type: 'webhook', inputs: own } },
    steps:
      flow.forward === undefined
        ? { log: { type: 'LogMessage', inputs: { message: 'a delivery arrived' } } }
        : forwardingTo(flow.forward),
  };
}

function withInputs(manifest: NewManifest, inputs: WebhookInputs): NewManifest {
  const { webhookEnforcementMode: _, ...more } = inputs;
  const triggers = Object.entries(manifest.triggers).map(
    ([key, trigger]) => [key, { ...trigger, inputs: { ...trigger.inputs, ...more } }] as const,
  );
  return { ...manifest, triggers: Object.fromEntries(triggers) };
}

interface Written {
  readonly trigger: ImportedTrigger;
  readonly flow: NewFlow;
  readonly manifest: NewManifest;
  readonly file: string;
  readonly warnings: readonly ManifestIssue[];
}

function linesOn({ trigger, flow, manifest, file, warnings }: Written, settings: Settings): string[] {
  const { webhookSignatureScheme: scheme } = Object.values(manifest.triggers)[0]?.inputs ?? {};
  const how = scheme === undefined ? 'no signature scheme' : `signed as ${scheme}`;
  return [
    `Wrote ${file}: flow ${quoted(manifest.name)} with the id ${manifest.id}, ${how}, ${flow.mode}.`,
    `URL:  ${maskUrl(urlOf(flow.slug, settings.publicUrl))}`,
    ...referencesOf(manifest).map((reference) => `Key:  ${keyText(reference, trigger, flow)}`),
    ...forwardLines(flow.forward, settings),
    ...trigger.notes.map((note) => `Note: ${printable(note)}`),
    ...trigger.notTaken.map((what) => `Not taken over: ${printable(what)}`),
    ...warnings.map(formatIssue),
  ];
}

/** Where to put which value, without the value. */
function keyText(reference: string, { key }: ImportedTrigger, flow: NewFlow): string {
  const place = placeOfReference(reference);
  if (reference !== flow.key) return place;
  return key?.at === undefined ? `${place}; the file does not have it` : `${key.at} of the file, ${place}`;
}

export const importsCommand: CommandPart = { name: 'imports', additions: { new: addFrom } };

/** Reads JSON as an export. Throws `NotReadable`. */
export function readImport(kind: ImportedKind, text: string): Imported {
  const found = EXPORTS[kind](documentIn(text, kind));
  if (found.triggers.length > MOST_TRIGGERS)
    throw new NotReadable(`has ${found.triggers.length} triggers, and at most ${MOST_TRIGGERS} are taken over at once`);
  return found;
}

/** Each trigger becomes a file. */
const MOST_TRIGGERS = 1000;

function documentIn(text: string, kind: ImportedKind): object {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // The message quotes the text, which has secrets.
  }
  // Most policies are YAML; its parser would add 35 kB to the package.
  const hint = kind === 'ngrok' ? '; convert YAML with: npx js-yaml@4 FILE.yml > FILE.json' : '';
  throw new NotReadable(`has no JSON object or list${hint}`);
}
