import { basename } from 'node:path';
import { findReplaced, flowIdChanged } from '../manifest/changes/index.ts';
import type { ManifestIssue } from '../manifest/issues.ts';
import { readJson } from '../manifest/json-text.ts';
import { canonicalKeys, isObject } from '../manifest/keys.ts';
import { listFiles, MAX_MANIFEST_BYTES } from '../manifest/load.ts';
import { readRegularFile } from '../manifest/read-file.ts';
import type { DeployOutcome, Finding, FindingClass } from '../model/finding.ts';
import type { Checked, CheckOptions } from './check.ts';
import { CommandError, readCommandSettings } from './context.ts';
import { createServiceClient, type ServiceClient } from './service-client.ts';

/** A manifest as far as it has to be known here: the service judges it, with its own secrets, handlers and rules. */
export interface SentManifest {
  readonly file: string;
  readonly text: string;
  readonly id: string;
  readonly name: string;
  readonly slugs: readonly string[];
}

interface ServedFlow {
  readonly id: string;
  readonly name: string;
  readonly slugs: readonly string[];
}

/** Asks a service what a deploy of each manifest would do; nothing is deployed. */
export async function checkAgainstService(
  url: string,
  folder: string | undefined,
  options: CheckOptions,
): Promise<Checked> {
  const settings = await readCommandSettings(folder);
  const client = createServiceClient(url, options, settings);
  const { manifests, issues } = await readFolder(folder ?? settings.manifests);
  const served = await listServed(client);
  const ids = new Set(manifests.map(({ id }) => id));
  // A manifest without a readable id is not gone.
  const gone = served.filter(({ id }) => issues.length === 0 && !ids.has(id));
  const goneIds = new Set(gone.map(({ id }) => id));
  const outcomes: DeployOutcome[] = [];
  for (const manifest of manifests) {
    const answer = await putManifest(client, manifest, { allow: options.allow, isPlan: true });
    if ('issues' in answer) issues.push(...answer.issues);
    else {
      const replaced = findReplaced({ next: manifest, deployed: served, goneIds });
      const old = served.find(({ id }) => id === replaced?.id);
      const objection = replaced && old && (await idChanged(client, { old, next: answer, because: replaced.because }));
      outcomes.push(objection === undefined ? answer : withObjection(answer, objection, options));
    }
  }
  return { issues, flows: outcomes.length, outcomes, notInFolder: gone, against: `the service ${url}` };
}

export async function readFolder(folder: string): Promise<{ manifests: SentManifest[]; issues: ManifestIssue[] }> {
  const files = await listFiles(folder);
  if ('error' in files) return { manifests: [], issues: [files.error] };
  const manifests: SentManifest[] = [];
  const issues: ManifestIssue[] = [];
  for (const file of files.names) {
    const text = await readText(file);
    const { value, problems } = readJson(text);
    const sent = identify(canonicalKeys(value).value);
    if (typeof sent !== 'string') {
      // The service sees no file, which names a flow that its manifest does not name.
      const name = basename(file, '.json');
      const named = sent.name === undefined && isObject(value) ? JSON.stringify({ ...value, name }) : text;
      manifests.push({ name, ...sent, file, text: named });
    } else if (value === undefined) issues.push(...problems.map((problem) => ({ ...problem, file })));
    else issues.push({ severity: 'error', file, path: 'id', message: sent });
  }
  const clashes = manifests.flatMap(({ file, id }): ManifestIssue[] => {
    const other = manifests.find((each) => each.id === id && each.file !== file);
    return other === undefined
      ? []
      : [{ severity: 'error', file, path: 'id', message: `is the id of ${other.file} too` }];
  });
  return { manifests, issues: [...issues, ...clashes] };
}

async function readText(file: string): Promise<string> {
  try {
    return (await readRegularFile(file, MAX_MANIFEST_BYTES)).toString('utf8');
  } catch (error) {
    throw new CommandError(`${file}: cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The id in lower case, the name where there is one, and the slugs; or what is wrong with the id. */
function identify(manifest: unknown): { id: string; name?: string; slugs: string[] } | string {
  if (!isObject(manifest) || typeof manifest.id !== 'string') return 'is missing, or no text';
  if (!/^[0-9a-f-]{36}$/i.test(manifest.id)) return 'is no GUID';
  const triggers = isObject(manifest.triggers) ? Object.values(manifest.triggers) : [];
  const slugs = triggers.flatMap((trigger) => {
    const inputs = isObject(trigger) ? trigger.inputs : undefined;
    return isObject(inputs) && typeof inputs.webhookSlug === 'string' ? [inputs.webhookSlug] : [];
  });
  const name = typeof manifest.name === 'string' ? { name: manifest.name } : {};
  return { id: manifest.id.toLowerCase(), ...name, slugs };
}

/** Deploys a manifest, or asks what that would do. */
export async function putManifest(
  client: ServiceClient,
  { id, file, text }: SentManifest,
  { allow, isPlan }: { readonly allow: readonly FindingClass[]; readonly isPlan: boolean },
): Promise<DeployOutcome | { issues: ManifestIssue[] }> {
  const query = `dryRun=${isPlan}${allow.length === 0 ? '' : `&allow=${allow.join(',')}`}`;
  const path = `/flows/api/flows/${id}?${query}`;
  const { status, body } = await client.ask({ method: 'PUT', path, body: text, accepts: [400, 409] });
  if (status === 400) return { issues: issuesOf(body, file) };
  const outcome = body as DeployOutcome;
  if (isObject(body) && Array.isArray(outcome.findings) && typeof outcome.class === 'string') return outcome;
  throw new CommandError('The service answered with no outcome of a deploy; is it a Sluice service of this release?');
}

function issuesOf(body: unknown, file: string): ManifestIssue[] {
  const { issues, message } = body as { issues?: readonly ManifestIssue[]; message?: string };
  const given = issues ?? [{ severity: 'error', path: '', message: message ?? 'was refused' }];
  return given.map((issue) => ({ ...issue, file }));
}

async function listServed(client: ServiceClient): Promise<ServedFlow[]> {
  const take = 500;
  const flows: ServedFlow[] = [];
  for (let skip = 0; ; skip += take) {
    const { body } = await client.ask({ method: 'GET', path: `/flows/api/flows?skip=${skip}&take=${take}` });
    if (!Array.isArray(body))
      throw new CommandError('The service answered with no list of flows; is it a Sluice service?');
    const page = body as { id: string; name: string; triggers: { slug?: string | null }[] }[];
    flows.push(
      ...page.map(({ id, name, triggers }) => ({ id, name, slugs: triggers.flatMap(({ slug }) => slug ?? []) })),
    );
    if (page.length < take) return flows;
  }
}

/** One manifest at a time the service cannot tell that another flow has lost its own. */
async function idChanged(
  client: ServiceClient,
  { old, next, because }: { old: ServedFlow; next: DeployOutcome; because: 'slug' | 'name' },
): Promise<Finding> {
  const path = `/flows/api/runs?flowId=${old.id}&status=Running&take=1&includeTotal=true`;
  const { total } = (await client.ask({ method: 'GET', path })).body as { total?: number };
  const live = { runsInFlight: total ?? 0, runs: [], stepsWithHistory: [], lastRunOfStep: {} };
  return flowIdChanged({ replaced: old, next: { id: next.flowId, name: next.name }, because, live });
}

function withObjection(outcome: DeployOutcome, objection: Finding, { allow }: CheckOptions): DeployOutcome {
  const findings = [objection, ...outcome.findings];
  if (allow.includes('breaking')) return { ...outcome, class: 'breaking', findings };
  return { ...outcome, class: 'breaking', findings, action: 'refused', revision: null, refusal: objection.message };
}
