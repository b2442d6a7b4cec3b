import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { Command } from 'commander';
import pino from 'pino';
import { type DatabaseTarget, databaseTarget, isPostgres, transportMistakes } from '../config/database.ts';
import { processEnvironment, settingsWarnings } from '../config/settings.ts';
import type { Settings } from '../config/settings-schema.ts';
import { isOpening } from '../deploys/deploy-access.ts';
import { createDeployer, type Deployer, type ToldDeploy } from '../deploys/deployer.ts';
import { accessSettings, createNeedsReader } from '../deploys/needs.ts';
import { warningsOfPlan } from '../deploys/plan-warnings.ts';
import { type Catalog, createCatalog, type DeployedFlow, deployedAnew } from '../flows/catalog.ts';
import { canonicalKeys } from '../manifest/canonical-keys.ts';
import { formatIssue, type ManifestIssue } from '../manifest/issues.ts';
import { isObject, placesIn, readJson } from '../manifest/json-text.ts';
import { listFiles, MAX_MANIFEST_BYTES } from '../manifest/load.ts';
import { maskRefusedUrl, maskUrl } from '../manifest/mask.ts';
import { NotAFileError, readTextFile } from '../manifest/read-file.ts';
import { freshId } from '../manifest/schema.ts';
import type { DeployOutcome, Override } from '../model/finding.ts';
import { inspectStore } from '../store/offline.ts';
import { bodySealer } from '../store/sealed-body.ts';
import type { Inspection } from '../store/store.ts';
import { storeKeys } from '../store/store-keys.ts';
import { print } from '../telemetry/terminal.ts';
import { createTriggerTable } from '../webhooks/triggers.ts';
import { webhookLines } from '../webhooks/webhook-lines.ts';
import { checkSummary } from './check-summary.ts';
import {
  allowOption,
  type CommandContext,
  CommandError,
  openContext,
  readCommandSettings,
  reporting,
  withCredentials,
  writeOutput,
} from './context.ts';
import { type CommandPart, HELP } from './part.ts';
import { type Conclusion, concludeCheck, renderOutcomes } from './render-outcomes.ts';
import { createServiceClient, listFlows, type ServiceClient } from './service-client.ts';

/** The effect of a folder of manifests on the deployed flows. */
export interface Checked {
  readonly issues: readonly ManifestIssue[];
  /** Manifests without an error. */
  readonly flows: number;
  /** Empty if nothing was compared. */
  readonly outcomes: readonly DeployOutcome[];
  readonly notInFolder: readonly { readonly id: string; readonly name: string }[];
  /** What the manifests were compared with, in words. */
  readonly against: string;
  /** What a start with these settings reports about them and its webhooks. Absent for a service, which logs its own. */
  readonly start?: readonly string[];
  readonly seen?: Seen | undefined;
}

/** A feature's view of a deploy by a service. */
interface Seen {
  /** Additional members of the `--json` output. */
  readonly json: object;
  readonly text: readonly string[];
  /** Without content that some readers of the summary may not see. */
  readonly summary: readonly string[];
  /** The worse of the deploy's conclusion and this one. */
  readonly conclude: (deploy: Conclusion) => Conclusion;
}

/** Examines manifests that can be deployed to a service. */
type Look = (client: ServiceClient, manifests: readonly SentManifest[]) => Promise<Seen>;

export interface CheckOptions {
  readonly against?: string;
  readonly json?: true;
  readonly summary?: string;
  readonly allow: readonly Override[];
  readonly user?: string;
  readonly token?: string;
}

function checkCommand(): Command {
  const command = new Command('check')
    .helpGroup(HELP.daily)
    .description('Check a folder of manifests as the service does at start, and show what a deploy would do')
    .argument('[folder]', 'the folder; default: the manifests folder of the settings')
    .option(
      '--against <target>',
      'URL of a service, sqlite:PATH or postgres://…; default: the database of the settings',
    )
    .option('--json', 'print issues and outcomes as JSON')
    .option('--summary <file>', 'also write the result as Markdown, such as for a comment on a pull request')
    .addOption(allowOption('treat as allowed'));
  return withCredentials(command)
    .addHelpText(
      'after',
      '\nThe exit code is 0 if all changes are safe, 1 if there is a caution, and 2 if a change is breaking or lets more in ' +
        'by a webhook, a manifest does not load or the service does not answer.',
    )
    .action(reporting((folder: string | undefined, options: CheckOptions) => check(folder, options)));
}

/** `look` is only called for a service. */
export async function check(folder: string | undefined, options: CheckOptions, look?: Look): Promise<void> {
  const { against } = options;
  const checked = isUrl(against)
    ? await checkAgainstService(against, folder, { ...options, look })
    : await checkAgainstDatabase(folder, options);
  const errors = checked.issues.filter(({ severity }) => severity === 'error').length;
  const deploy = concludeCheck(checked.outcomes, options.allow, errors);
  const conclusion = checked.seen === undefined ? deploy : checked.seen.conclude(deploy);
  const text = asText(checked, errors, { ...conclusion, seen: checked.seen?.text });
  if (options.summary !== undefined) {
    // The summary has more readers than may see deliveries.
    const told = asText(checked, errors, { ...conclusion, seen: checked.seen?.summary });
    await writeOutput(options.summary, checkSummary({ outcomes: checked.outcomes, errors, text: told, conclusion }));
  }
  print(options.json ? asJson(checked) : text);
  process.exitCode = conclusion.code;
}

export const isUrl = (against: string | undefined): against is string =>
  against !== undefined && /^https?:/i.test(against);

/** The output of `--json`. */
export function asJson({ flows, issues, outcomes, notInFolder, against, start, seen }: Checked): string {
  return `${JSON.stringify({ against, flows, issues, outcomes, notInFolder, start, ...seen?.json }, null, 2)}\n`;
}

function asText(
  { issues, flows, outcomes, notInFolder, against, start = [] }: Checked,
  errors: number,
  { seen = [], line, ...rest }: Conclusion & { readonly seen?: readonly string[] | undefined },
): string {
  const summary = `${flows} flows can be deployed, ${errors} errors, ${issues.length - errors} warnings`;
  const found = [...issues.map(formatIssue), `${summary}; compared with ${against}`].join('\n');
  const gone = notInFolder.map(({ id, name }) => `deployed but not in the folder: ${name} (${id}); it stays deployed`);
  const said = start.length === 0 ? [] : [start.join('\n')];
  const told = renderOutcomes(outcomes, { ...rest, line: [...seen, line].join('\n\n') });
  return `${[found, ...gone, ...said, told].join('\n\n')}`;
}

/** The relevant part of a manifest: the service checks the rest, with its own secrets, handlers and rules. */
export interface SentManifest {
  readonly file: string;
  readonly text: string;
  /** The text of the file, for locating issues. */
  readonly written: string;
  readonly id: string;
}

/** Asks a service what deploying the folder would do; deploys nothing. */
export async function checkAgainstService(
  url: string,
  folder: string | undefined,
  options: CheckOptions & { readonly look?: Look | undefined },
): Promise<Checked> {
  const settings = await readCommandSettings(folder);
  const client = createServiceClient(url, options, settings);
  const { manifests, issues } = await readFolder(folder ?? settings.manifests);
  const against = `the service ${url}`;
  // A manifest without a readable id does not count as removed.
  const isWholeFolder = issues.length === 0;
  const ids = new Set(manifests.map(({ id }) => id));
  const notInFolder = (await listReadable(client))
    .filter(({ id }) => isWholeFolder && !ids.has(id))
    .map(({ id, name }) => ({ id, name }));
  const request = { allow: options.allow, isPlan: true, isWholeFolder };
  const answer = await putManifests(client, manifests, request);
  if ('outcomes' in answer) {
    const { outcomes, warnings } = answer;
    const seen = await options.look?.(client, manifests);
    return { issues: [...issues, ...warnings], flows: manifests.length, outcomes, notInFolder, against, seen };
  }
  issues.push(...answer.issues);
  // Valid manifests are judged nevertheless.
  const invalid = new Set(answer.issues.filter(({ severity }) => severity === 'error').map(({ file }) => file));
  const valid = manifests.filter(({ file }) => !invalid.has(file));
  const rest =
    invalid.size === 0 ? { outcomes: [] } : await putManifests(client, valid, { ...request, isWholeFolder: false });
  const outcomes = 'outcomes' in rest ? rest.outcomes : [];
  const seen = 'outcomes' in rest ? await options.look?.(client, valid) : undefined;
  return { issues, flows: outcomes.length, outcomes, notInFolder, against, seen };
}

/** Empty for a token that can deploy but not read, as for checks of pull requests: it must not see other flows. */
async function listReadable(client: ServiceClient): ReturnType<typeof listFlows> {
  const { status } = await client.ask({ method: 'GET', path: '/flows/api/flows?skip=0&take=1', accepts: [403] });
  return status === 403 ? [] : await listFlows(client);
}

export async function readFolder(folder: string): Promise<{ manifests: SentManifest[]; issues: ManifestIssue[] }> {
  const files = await listFiles(folder);
  if ('error' in files) return { manifests: [], issues: [files.error] };
  const manifests: SentManifest[] = [];
  const issues: ManifestIssue[] = [];
  for (const file of files.names) {
    const text = await readText(file);
    const { value, problems, strict } = readJson(text);
    const sent = identify(canonicalKeys(value).value);
    if (typeof sent !== 'string') {
      // A flow without a name is named after its file, which the service does not see.
      const name = basename(file, '.json');
      const named = sent.name === undefined && isObject(value) ? JSON.stringify({ ...value, name }) : strict;
      manifests.push({ id: sent.id, file, text: named, written: text });
    } else if (value === undefined) issues.push(...problems.map((problem) => ({ ...problem, file })));
    else issues.push({ severity: 'error', file, path: 'id', message: sent, ...placesIn(text)('id') });
  }
  const clashes = manifests.flatMap(({ file, id }): ManifestIssue[] => {
    const other = manifests.find((each) => each.id === id && each.file !== file);
    return other === undefined
      ? []
      : [{ severity: 'error', file, path: 'id', message: `is also the id of ${other.file}` }];
  });
  return { manifests, issues: [...issues, ...clashes] };
}

async function readText(file: string): Promise<string> {
  try {
    return await readTextFile(file, MAX_MANIFEST_BYTES);
  } catch (error) {
    if (error instanceof NotAFileError) throw new CommandError(`${file}: ${error.message}`);
    throw new CommandError(`${file}: cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The id in lower case, and the name if there is one; or an error about the id. */
function identify(manifest: unknown): { id: string; name?: string } | string {
  if (!isObject(manifest) || typeof manifest.id !== 'string') return `is missing or not a string; ${freshId()}`;
  if (!/^[0-9a-f-]{36}$/i.test(manifest.id)) return `is not a GUID; ${freshId()}`;
  const name = typeof manifest.name === 'string' ? { name: manifest.name } : {};
  return { id: manifest.id.toLowerCase(), ...name };
}

/** Deploys manifests together, or asks for a dry run. */
export async function putManifests(
  client: ServiceClient,
  manifests: readonly SentManifest[],
  { allow, isPlan, isWholeFolder }: PutOptions,
): Promise<{ outcomes: DeployOutcome[]; warnings: ManifestIssue[] } | { issues: ManifestIssue[] }> {
  const allowed = allow.length === 0 ? '' : `&allow=${allow.join(',')}`;
  const path = `/flows/api/flows?dryRun=${isPlan}&wholeFolder=${isWholeFolder}${allowed}`;
  const sent = `[${manifests.map(({ text }) => text).join(',')}]`;
  const { status, body } = await client.ask({ method: 'PUT', path, body: sent, accepts: [400, 409] });
  if (status === 400) return { issues: issuesOf(body, manifests) };
  if (isObject(body) && Array.isArray(body.outcomes)) {
    const warnings = issuesOf({ issues: body.issues ?? [] }, manifests);
    return { outcomes: body.outcomes as DeployOutcome[], warnings };
  }
  throw new CommandError('The answer is not the result of a deploy; is it a Sluice service of this release?');
}

interface PutOptions {
  readonly allow: readonly Override[];
  readonly isPlan: boolean;
  readonly isWholeFolder: boolean;
}

/** The service names places in an array; the user knows files. */
function issuesOf(body: unknown, manifests: readonly SentManifest[]): ManifestIssue[] {
  const { issues, message } = body as { issues?: readonly ManifestIssue[]; message?: string };
  const given = issues ?? [{ severity: 'error', file: '', path: '', message: message ?? 'was refused' }];
  const named = (text: string) => text.replace(/\[(\d+)\]/, (place, index) => manifests[Number(index)]?.file ?? place);
  const placesByFile = new Map(manifests.map(({ file, written }) => [file, placesIn(written)]));
  return given.map(({ severity, path, message: told, ...issue }) => {
    const file = named(issue.file);
    const place = path === '' ? undefined : placesByFile.get(file)?.(path);
    const message = /^is also the (id|slug) of /.test(told) ? named(told) : told;
    return { severity, file, path, message, ...place };
  });
}

/** Shows what a start with this database would do. Only reads the database, whether or not a service is using it. */
async function checkAgainstDatabase(folder: string | undefined, options: CheckOptions): Promise<Checked> {
  const context = await openContext(folder);
  const { flows, issues } = context;
  const database = databaseOf(options.against, context.settings);
  const known = { issues: [...issues], flows: flows.length };
  if (database.kind === 'sqlite' && options.against === undefined && !existsSync(database.path)) {
    const against = 'nothing, because the database does not exist yet';
    return { ...known, outcomes: [], notInFolder: [], against, start: startLines(flows.map(deployedAnew), context) };
  }
  const name = database.kind === 'sqlite' ? database.path : maskUrl(database.url);
  const inspection = await inspectStore(database).catch((error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error);
    const setting = options.against === undefined ? ' (SLUICE_DATABASE_URL)' : '';
    throw new CommandError(`${reason}${setting}`);
  });
  try {
    for (const flow of flows) known.issues.push(...(await warningsOfPlan(flow, inspection)));
    return {
      ...known,
      ...(await plan(inspection, { ...context, database }, options)),
      against: `the database ${name}`,
    };
  } finally {
    await inspection.close();
  }
}

function databaseOf(against: string | undefined, settings: Settings): DatabaseTarget {
  if (against === undefined) return databaseTarget(settings, process.cwd());
  if (isPostgres(against) && URL.canParse(against)) {
    const [mistake] = transportMistakes('--against', against, processEnvironment());
    if (mistake !== undefined) throw new CommandError(mistake);
    return databaseTarget({ ...settings, databaseUrl: against, databaseDirectUrl: against }, '');
  }
  const [, path = ''] = /^sqlite:(.+)$/i.exec(against) ?? [];
  if (path !== '' && path !== ':memory:') return { kind: 'sqlite', path };
  throw new CommandError(
    `--against "${maskRefusedUrl(against)}": expected the URL of a service, sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE`,
  );
}

/** The deployed flows of a database, read by the service's own code. */
export async function restoreDeployed(
  inspection: Inspection,
  { flows, extensions, settings, database }: CommandContext & { readonly database: DatabaseTarget },
): Promise<{ readonly deployer: Deployer; readonly catalog: Catalog; readonly told: readonly ToldDeploy[] }> {
  const clock = { now: () => Date.now(), monotonic: () => performance.now() };
  const refuse = () => Promise.reject(new Error('a database opened for inspection is read-only'));
  const store = {
    ...inspection,
    // The catalog has all of them, as they were restored.
    listFlows: async () => [],
    // A start would store facts about secrets and settings here.
    renewNeeds: async () => {},
    applyDeploys: refuse,
    deleteFlow: refuse,
    deployFlow: refuse,
    setFlowEnabled: refuse,
    setFlowDraining: refuse,
  };
  const catalog = createCatalog(store, clock);
  const keys = storeKeys(database, {
    sealer: settings.storeKey === undefined ? undefined : bodySealer(settings.storeKey),
  });
  const told: ToldDeploy[] = [];
  const deployer = createDeployer({
    store,
    catalog,
    clock,
    rules: extensions.rules,
    needs: createNeedsReader({
      keys,
      rules: extensions.rules,
      gates: extensions.gates,
      settings: accessSettings(settings),
    }),
    gates: extensions.gates,
    logger: pino({ level: 'silent' }),
    settings,
    onDeployed: () => {},
    onTold: async (deploys) => {
      told.push(...deploys);
    },
  });
  extensions.useFolder(flows);
  await deployer.restore(flows);
  return { deployer, catalog, told };
}

/** Routes that accept more without a changed manifest: because of a setting, or code that the config module lost. */
function openedLines(told: readonly ToldDeploy[]): string[] {
  return told.flatMap(({ name, routes }) =>
    routes
      .filter(isOpening)
      .map(
        ({ route, reasons }) => `warning ${name}: more deliveries to ${route} pass than so far: ${reasons.join(' ')}`,
      ),
  );
}

async function plan(inspection: Inspection, context: Parameters<typeof restoreDeployed>[1], { allow }: CheckOptions) {
  const { flows, issues } = context;
  // A manifest that cannot be loaded does not count as removed.
  const isWholeFolder = issues.every(({ severity }) => severity !== 'error');
  const { deployer, catalog, told } = await restoreDeployed(inspection, context);
  const outcomes = await deployer.plan(flows, { allow, isWholeFolder, source: 'folder', actor: 'check' });
  const refused = new Set(outcomes.flatMap(({ action, flowId }) => (action === 'refused' ? [flowId] : [])));
  const served = flows.filter(({ manifest }) => !refused.has(manifest.id));
  const replaced = new Set(served.map(({ manifest }) => manifest.id));
  const kept = catalog.list().filter(({ record }) => !replaced.has(record.id));
  const ids = new Set(flows.map(({ manifest }) => manifest.id));
  const gone = catalog.list().filter(({ record }) => isWholeFolder && !ids.has(record.id));
  return {
    outcomes,
    notInFolder: gone.map(({ record }) => ({ id: record.id, name: record.name })),
    start: [...openedLines(told), ...startLines([...kept, ...served.map(deployedAnew)], context)],
  };
}

function startLines(flows: readonly DeployedFlow[], { settings, extensions }: CommandContext): string[] {
  const triggers = createTriggerTable({
    flows,
    preparer: extensions.gates,
    defaultMode: settings.enforcementMode,
  });
  return [...settingsWarnings(settings), ...webhookLines(triggers, maskUrl(settings.publicUrl ?? ''))];
}

export const checkPart: CommandPart = { name: 'check', commands: [checkCommand] };
