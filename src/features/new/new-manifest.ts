import { randomUUID } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type CommandContext, CommandError } from '../../commands/context.ts';
import { isLoopbackHost } from '../../config/settings.ts';
import type { Settings } from '../../config/settings-schema.ts';
import { formatIssue, type ManifestIssue } from '../../manifest/issues.ts';
import { type LoadedFlow, loadManifests, parseManifest } from '../../manifest/load.ts';
import { isReference, type SecretReader } from '../../manifest/read-secret.ts';
import type { WebhookInputs } from '../../manifest/webhook-inputs.ts';
import { ENFORCEMENT_MODES, type EnforcementMode } from '../../model/manifest.ts';
import { schemaText } from '../schema/command.ts';
import type { Publisher } from './publishers.ts';

/** A manifest written by `new`, with one webhook trigger. */
export interface NewManifest {
  readonly id: string;
  readonly name: string;
  readonly triggers: Readonly<Record<string, { readonly type: string; readonly inputs: WebhookInputs }>>;
  readonly [field: string]: unknown;
}

/** What `new` decides for every flow. */
export interface NewFlow {
  readonly name: string;
  readonly slug: string;
  /** Undefined if the publisher hands the key over, or if nothing is verified. */
  readonly key: string | undefined;
  readonly mode: EnforcementMode;
  /** Where each delivery is forwarded; undefined if it is logged. */
  readonly forward: string | undefined;
}

/** The publisher's first flow, with the particulars of this one. */
export function publisherManifest(
  { publisher, slug, key, mode, forward, name }: NewFlow & { readonly publisher: Publisher },
  { publicUrl }: Settings,
): NewManifest {
  const flow = publisher.flow(urlOf(slug, publicUrl));
  const own = ({ webhookPublicUrl, webhookHmacKey, ...rest }: WebhookInputs): WebhookInputs => ({
    ...rest,
    webhookSlug: slug,
    ...(key !== undefined && { webhookHmacKey: key }),
    ...(webhookPublicUrl !== undefined && publicUrl !== undefined && { webhookPublicUrl }),
    webhookEnforcementMode: mode,
  });
  const triggers = Object.entries(flow.triggers).map(([at, { type, inputs }]) => [at, { type, inputs: own(inputs) }]);
  return {
    $schema: './manifest.schema.json',
    id: randomUUID(),
    ...flow,
    ...{ name, triggers: Object.fromEntries(triggers) },
    ...(forward !== undefined && { steps: forwardingTo(forward) }),
  };
}

/** Why no new trigger can have this slug. */
export function mistakeInSlug(slug: string, flows: readonly LoadedFlow[]): string | undefined {
  const [, kind] = /\.(schema|test)$/i.exec(slug) ?? [];
  if (kind !== undefined) return `"${slug}.json" would count as a ${kind}; choose another slug`;
  const taken = flows.flatMap((flow) => flow.webhooks.map(({ inputs }) => inputs.webhookSlug?.toLowerCase()));
  return taken.includes(slug.toLowerCase()) ? `the slug "${slug}" is taken; choose another` : undefined;
}

export function modeNamed(given: string): EnforcementMode {
  const mode = ENFORCEMENT_MODES.find((each) => each.toLowerCase() === given.toLowerCase());
  if (mode === undefined) throw new CommandError(`the mode "${given}" is not one of ${ENFORCEMENT_MODES.join(', ')}`);
  return mode;
}

export function mistakeInUrl(text: string): string | undefined {
  return /^https?:\/\//i.test(text) && URL.canParse(text)
    ? undefined
    : 'expected a URL that begins with http:// or https://';
}

/** The first step, which forwards each delivery. */
export function forwardingTo(url: string) {
  return {
    forward: {
      type: 'HttpRequest',
      inputs: { url, method: 'POST', forwardBody: true },
      retry: { maxAttempts: 5, backoffSeconds: 2 },
    },
  };
}

const LATER: SecretReader = () => ({ value: 'a secret that is set later' });

/** The flows of a folder, including those whose secrets do not exist yet. */
export async function flowsIn(folder: string, { extensions }: CommandContext): Promise<readonly LoadedFlow[]> {
  return (await loadManifests(folder, { ...extensions.rules.folder, readSecret: LATER })).flows;
}

/** Throws if the manifest cannot be loaded, except for missing secrets; yields the warnings. */
export function refuseMistakes(manifest: NewManifest, file: string, { extensions }: CommandContext): ManifestIssue[] {
  const rules = { ...extensions.rules.folder, readSecret: LATER };
  const { issues } = parseManifest(JSON.stringify(manifest), file, rules);
  const known = issues.filter(({ path }) => !/Key$|Token$/.test(path));
  const errors = known.filter(({ severity }) => severity === 'error');
  if (errors.length > 0) throw new CommandError(errors.map(formatIssue).join('\n'));
  return known.map((issue) => withoutPlace(issue));
}

/** The parsed text is not the file's own, so its lines and columns mean nothing. */
function withoutPlace({ line: _, column: __, ...issue }: ManifestIssue): ManifestIssue {
  return issue;
}

/** Writes all manifests to their files, or none; overwrites no file. */
export async function writeManifests(
  folder: string,
  manifests: ReadonlyMap<string, NewManifest>,
  { extensions }: CommandContext,
): Promise<void> {
  await mkdir(folder, { recursive: true }).catch((error: Error) => {
    throw new CommandError(`The folder ${folder} cannot be made: ${error.message}`);
  });
  const written: string[] = [];
  try {
    for (const [file, manifest] of manifests) {
      await writeOnce(file, manifest);
      written.push(file);
    }
  } catch (error) {
    await Promise.all(written.map((file) => rm(file, { force: true })));
    throw error;
  }
  // The manifests refer to it, for editors.
  await writeFile(join(folder, 'manifest.schema.json'), schemaText(extensions), { flag: 'wx' }).catch(() => {});
}

async function writeOnce(file: string, manifest: NewManifest): Promise<void> {
  try {
    await writeFile(file, `${JSON.stringify(manifest, null, 2)}\n`, { flag: 'wx' });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    const why = error.code === 'EEXIST' ? 'already exists and is not changed; choose another --slug' : error.message;
    throw new CommandError(`${file} ${why}`);
  }
}

const UNKNOWN_HOST = 'https://YOUR-HOST';

/** The URL that the publisher must send to. */
export function urlOf(slug: string, publicUrl: string | undefined): string {
  return `${publicUrl ?? UNKNOWN_HOST}/flows/api/webhook/${slug}`;
}

/** Says that a URL lacks its host. */
export function hostLines({ publicUrl }: Settings, manifest?: NewManifest): string[] {
  if (publicUrl !== undefined) return [];
  const isWritten = JSON.stringify(manifest)?.includes(UNKNOWN_HOST) === true;
  return [
    `YOUR-HOST is the public address of the service; set SLUICE_PUBLIC_URL to see the full URL here${isWritten ? ', and put it into the manifest' : ''}`,
  ];
}

/** Says what a step needs before it may call its URL. */
export function forwardLines(forward: string | undefined, { egressAllow }: Settings): string[] {
  const host = forward === undefined ? '' : new URL(forward).hostname.replace(/^\[|\]$/g, '');
  if (!isLoopbackHost(host) || egressAllow.length > 0) return [];
  return [
    `Step: steps do not reach this machine by default; set SLUICE_EGRESS_ALLOW=${host === '::1' ? host : '127.0.0.1'}`,
  ];
}

/** The secret references of the trigger, each once. */
export function referencesOf({ triggers }: NewManifest): string[] {
  const inputs = Object.values(triggers)[0]?.inputs ?? {};
  const texts = Object.values(inputs).filter((value) => typeof value === 'string');
  return [...new Set(texts.filter(isReference))];
}

/** Where to put the value of a reference. */
export function placeOfReference(reference: string): string {
  const [, kind = '', name = ''] = /^(env|file):(.*)$/i.exec(reference) ?? [];
  return kind.toLowerCase() === 'env'
    ? `into the variable ${name}, in the environment of the service or in the file .env: ${name}=…`
    : `into the file ${name}; the path starts at the folder of the manifests`;
}
