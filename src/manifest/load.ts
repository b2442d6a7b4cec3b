import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { formatPath, type JsonPath } from '../expressions/json-path.ts';
import { kindOf } from '../expressions/values.ts';
import { subFlowsOf } from '../model/manifest.ts';
import { inTurns } from '../model/turns.ts';
import { canonicalKeys } from './canonical-keys.ts';
import { formatIssue, type ManifestIssue, withIdsOfNames } from './issues.ts';
import { guessJson, isObject, readJson, treeOf } from './json-text.ts';
import {
  type LoadedFlow,
  type ManifestRules,
  type NamedManifest,
  namedManifest,
  type ReadManifest,
  readManifest,
} from './parse.ts';
import { NOT_UTF8, NotAFileError, otherKindOf, readRegularFile, utf8Text } from './read-file.ts';
import { chainText, refusedChain, startedFlowsIn, subFlowsIn } from './sub-flows.ts';

export type {
  LoadedFlow,
  ManifestRules,
  NamedManifest,
  UnservedTrigger,
} from './parse.ts';

/** Far larger than any handwritten manifest; a larger file was named by mistake. */
export const MAX_MANIFEST_BYTES = 16_777_216;

/** A file of the folder that cannot be deployed as it is. */
export interface UnreadableManifest extends NamedManifest {
  readonly file: string;
  /** For an operator. */
  readonly why: string;
  /** The readable part of the flow: a stored revision may need the secrets that it contains in plain text. */
  readonly draft: LoadedFlow | undefined;
}

/** The content of a manifest folder. */
export interface ManifestFolder {
  /** The flow of each file without errors, whatever is wrong in the others. */
  readonly flows: readonly LoadedFlow[];
  /** The other files. */
  readonly unreadable: readonly UnreadableManifest[];
  /** Of all files. */
  readonly issues: readonly ManifestIssue[];
  /** Whether the folder itself could be read. */
  readonly isThere: boolean;
}

/** Reads every `*.json` directly in the folder except `*.schema.json` and `*.test.json`, sorted by name. */
export async function loadManifests(folder: string, rules: ManifestRules): Promise<ManifestFolder> {
  const files = await listFiles(folder);
  if ('error' in files) return { flows: [], unreadable: [], issues: [files.error], isThere: false };
  const manifests: ReadManifest[] = [];
  const names: NamedManifest[] = [];
  const unread: ManifestIssue[] = [];
  for (const file of files.names) {
    try {
      const bytes = await readRegularFile(file, MAX_MANIFEST_BYTES);
      const text = utf8Text(bytes);
      const own = readManifest(text ?? bytes.toString('utf8'), file, rules);
      const read = text === undefined ? { ...own, isFit: false, issues: [mistakeIn(file, NOT_UTF8)] } : own;
      manifests.push(read);
      names.push(read.named);
    } catch (error) {
      unread.push(unreadable(file, error));
      names.push(namedManifest(undefined, file));
    }
  }
  const together = fitTogether(manifests, rules);
  const isWhole = names.every(({ flowId }) => flowId !== undefined);
  const wrong = await flowsNamedWrongly(manifests, { isWhole });
  const issues = [...files.skipped, ...unread, ...together.issues, ...wrong];
  const drafts = new Map(manifests.map(({ flow }) => [flow?.file, flow]));
  const errors = new Map<string, ManifestIssue[]>();
  for (const issue of issues) {
    if (issue.severity === 'error') errors.set(issue.file, [...(errors.get(issue.file) ?? []), issue]);
  }
  return {
    flows: together.flows.filter(({ file }) => !errors.has(file)),
    unreadable: files.names.flatMap((file, index) => {
      const [named, own] = [names[index], errors.get(file)];
      return named === undefined || own === undefined
        ? []
        : [{ ...named, file, why: whyUnreadable(own), draft: drafts.get(file) }];
    }),
    issues,
    isThere: true,
  };
}

function whyUnreadable(errors: readonly ManifestIssue[]): string {
  const [first, ...more] = errors;
  const text = first === undefined ? '' : formatIssue(first).replace(/^error /, '');
  return more.length === 0 ? text : `${text} (and ${more.length} more)`;
}

/** Reads one manifest and reports all its issues; yields a flow if none of them is an error. */
export function parseManifest(
  text: string,
  file: string,
  rules: ManifestRules,
): { flow: LoadedFlow | undefined; issues: ManifestIssue[] } {
  const { flows, issues } = fitTogether([readManifest(text, file, rules)], rules);
  return { flow: flows[0], issues };
}

/** Reads the manifests of one JSON array; in an issue, the file of each is its place, such as `[0]`. */
export async function parseManifests(
  text: string,
  nameOf: (id: string) => string,
  rules: ManifestRules,
): Promise<{ flows: LoadedFlow[]; issues: ManifestIssue[] }> {
  const { value, problems } = readJson(text);
  if (value === undefined) return { flows: [], issues: problems.map((problem) => ({ ...problem, file: 'body' })) };
  if (!Array.isArray(value)) {
    const message = `is ${kindOf(value)}; expected an array of manifests`;
    return { flows: [], issues: [{ severity: 'error', file: 'body', path: '', message }] };
  }
  const turn = inTurns();
  const manifests: ReadManifest[] = [];
  for (const { offset, length } of treeOf(text)?.children ?? []) {
    await turn();
    const index = manifests.length;
    const sent = canonicalKeys(value[index]).value;
    const name = nameOf(isObject(sent) && typeof sent.id === 'string' ? sent.id.toLowerCase() : '');
    const read = readManifest(text.slice(offset, offset + length), `${name}.json`, rules);
    const file = `[${index}]`;
    manifests.push({
      ...read,
      flow: read.flow && { ...read.flow, file },
      issues: read.issues.map((issue) => ({ ...issue, file })),
    });
  }
  return fitTogether(manifests, rules);
}

function fitTogether(
  manifests: readonly ReadManifest[],
  rules: ManifestRules,
): { flows: LoadedFlow[]; issues: ManifestIssue[] } {
  const clashes = [...sharedIds(manifests), ...sharedSlugs(manifests, rules)];
  const clashing = new Set(clashes.map((issue) => issue.file));
  const flows = manifests.flatMap(({ flow, isFit }) => (flow !== undefined && isFit ? [flow] : []));
  return {
    flows: flows.filter((flow) => !clashing.has(flow.file)),
    issues: withIdsOfNames(
      [...manifests.flatMap((manifest) => manifest.issues), ...clashes],
      manifests.map(({ named: { flowId, name } }) => ({ id: flowId, name })),
    ),
  };
}

/** Manifests by name; warns about names of manifests that are not files, and manifests that are named like tests. */
export async function listFiles(
  folder: string,
): Promise<{ names: string[]; skipped: ManifestIssue[] } | { error: ManifestIssue }> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    const found = entries
      .filter(({ name }) => name.endsWith('.json') && !name.endsWith('.schema.json'))
      .map(({ name }) => join(folder, name))
      .sort();
    const skipped = await Promise.all(found.map(skippedFile));
    return {
      names: found.filter((file, index) => skipped[index] === undefined && !isTest(file)),
      skipped: skipped.filter((issue) => issue !== undefined),
    };
  } catch (error) {
    return { error: unreadable(folder, error) };
  }
}

const isTest = (file: string) => file.endsWith('.test.json');

async function skippedFile(file: string): Promise<ManifestIssue | undefined> {
  // If `stat` fails, reading the file reports why.
  const stats = await stat(file).catch(() => undefined);
  const kind = stats === undefined ? undefined : otherKindOf(stats);
  const why = kind === undefined ? await whyNoTest(file) : `is ${kind}, not a file; it is skipped`;
  return why === undefined ? undefined : { severity: 'warning', file, path: '', message: why };
}

/** A file with a flow id is a manifest, and nobody would miss it until its deliveries are refused. */
async function whyNoTest(file: string): Promise<string | undefined> {
  if (!isTest(file)) return undefined;
  const text = (await readRegularFile(file, MAX_MANIFEST_BYTES).catch(() => '')).toString();
  const isManifest = namedManifest(canonicalKeys(guessJson(text)).value, file).flowId !== undefined;
  return isManifest ? 'is named like a test, so it is not loaded; rename it if it is a manifest' : undefined;
}

function unreadable(file: string, error: unknown): ManifestIssue {
  if (error instanceof NotAFileError) return mistakeIn(file, error.message);
  if (!(error instanceof Error && 'code' in error)) throw error;
  return mistakeIn(file, `cannot be read: ${String(error.code)}`);
}

function mistakeIn(file: string, message: string): ManifestIssue {
  return { severity: 'error', file, path: '', message };
}

/** A value that only one flow or trigger can have, and its place. */
interface UniqueValue {
  readonly value: string;
  readonly file: string;
  readonly path: string;
  readonly place: ReadManifest['place'];
}

function sharedIds(manifests: readonly ReadManifest[]): ManifestIssue[] {
  const values = manifests.flatMap(({ flow, spell, place }) =>
    flow === undefined || flow.manifest.id === ''
      ? []
      : [{ value: flow.manifest.id, file: flow.file, path: spell('id'), place }],
  );
  return clashesOf(values, (other) => `is also the id of ${other.file}`);
}

function sharedSlugs(
  manifests: readonly ReadManifest[],
  { whyApart = () => '' }: Pick<ManifestRules, 'whyApart'>,
): ManifestIssue[] {
  const values = manifests.flatMap(({ flow, spell, place }) => {
    if (flow === undefined) return [];
    return flow.webhooks.flatMap((trigger) => {
      const { webhookSlug } = trigger.inputs;
      const path = spell(formatPath(['triggers', trigger.triggerKey, 'inputs', 'webhookSlug']));
      const value = webhookSlug?.toLowerCase();
      return value === undefined ? [] : [{ value, file: flow.file, path, place, trigger }];
    });
  });
  return clashesOf(values, (other, own) => {
    const why = whyApart(own.trigger, other.trigger);
    if (why === undefined) return undefined;
    const isMeant = own.trigger.inputs.webhookShared === true || other.trigger.inputs.webhookShared === true;
    return `is also the slug of ${other.file} ${other.path}${isMeant ? `: it ${why}` : ''}`;
  });
}

/** A message for each value that occurs twice, unless both can have it. */
function clashesOf<Value extends UniqueValue>(
  values: readonly Value[],
  messageOf: (other: Value, own: Value) => string | undefined,
): ManifestIssue[] {
  const byValue = new Map<string, Value[]>();
  for (const own of values) byValue.set(own.value, [...(byValue.get(own.value) ?? []), own]);
  return values.flatMap((own) => {
    const { file, path, place } = own;
    for (const other of byValue.get(own.value) ?? []) {
      const message = other === own ? undefined : messageOf(other, own);
      if (message !== undefined) return [place({ severity: 'error', file, path, message })];
    }
    return [];
  });
}

/** Flows of a folder name only its own flows, as a new database has no others; none runs itself, even indirectly. */
async function flowsNamedWrongly(
  manifests: readonly ReadManifest[],
  { isWhole }: { readonly isWhole: boolean },
): Promise<ManifestIssue[]> {
  const flows = new Map(manifests.map(({ flow }) => [flow?.manifest.id, flow]));
  const ids = new Set(manifests.map(({ named }) => named.flowId));
  // A file without a readable id may be any flow; whether the named flow is deployed is checked by the deploy.
  const isMissing = (flowId: string) => isWhole && !ids.has(flowId);
  const known = new Map<string, readonly string[]>();
  const subFlows = (flowId: string) => {
    const found = known.get(flowId) ?? subFlowsOf(flows.get(flowId)?.manifest.steps ?? {});
    known.set(flowId, found);
    return found;
  };
  const nameOf = (flowId: string) => flows.get(flowId)?.manifest.name ?? flowId;
  const unknown = (flowId: string) => `is ${flowId}, which is not the id of a flow in this folder`;
  const turn = inTurns();
  const issues: ManifestIssue[] = [];
  for (const { flow, spell, place } of manifests) {
    if (flow === undefined) continue;
    await turn();
    const { id, steps } = flow.manifest;
    const report = (path: JsonPath, message: string) =>
      issues.push(place({ severity: 'error', file: flow.file, path: spell(formatPath(path)), message }));
    for (const { flowId, path } of startedFlowsIn(flow.manifest)) {
      if (isMissing(flowId)) report(path, unknown(flowId));
    }
    const chain = refusedChain(id, subFlows);
    const closing = subFlowsIn(steps).find(({ flowId }) => flowId === chain?.flowIds[1] && flowId !== id);
    if (chain !== undefined && closing !== undefined) report(closing.path, chainText(chain, nameOf));
  }
  return issues;
}
