import { Command } from 'commander';
import { z } from 'zod';
import { CommandError, openContext, reporting, withService } from '../../commands/context.ts';
import { clientOf, isId, type ServiceClient, type ServiceOptions } from '../../commands/service-client.ts';
import { defineHandler, type StepHandler } from '../../flows/handlers/handler.ts';
import { type HandlerTable, handlerTable } from '../../flows/handlers/index.ts';
import { diffSnapshots } from '../../manifest/diff.ts';
import { formatIssue } from '../../manifest/issues.ts';
import type { LoadedFlow } from '../../manifest/load.ts';
import { everyStep, type Graph, type StepDefinition } from '../../model/manifest.ts';
import { stepAt } from '../../model/runtime-keys.ts';
import { openSimulationStore } from '../../store/offline.ts';
import { print, printError } from '../../telemetry/terminal.ts';
import { endOf } from './compare.ts';
import { type RecordedRun, readRecordedRun } from './recorded-run.ts';
import { renderDifference } from './render-test.ts';
import { runTest } from './run-test.ts';
import { type SavedRun, savedRun, stepsByPath } from './saved-run.ts';
import { type SavedTest, writeSavedTest } from './saved-test.ts';
import { readTestedFlow } from './test-files.ts';

interface SaveOptions extends ServiceOptions {
  readonly keep: readonly string[];
}

export function saveCommand(): Command {
  const names = (text: string, before: readonly string[]) => [...before, ...text.toLowerCase().split(',')];
  const command = new Command('save')
    .description('Print a run as a test: what started it, what its calls were answered, and what it did')
    .argument('<run>', 'id of a run that ended')
    .option('--keep <names>', 'fields whose names look like credentials but are not, such as key', names, []);
  return withService(command)
    .addHelpText(
      'after',
      '\nSecrets are masked, and so is all text under a name that looks like a credential. Exits with 0 if the test does what the\n' +
        'run did, with 1 if it does something else, and with 2 if nothing could be saved.',
    )
    .action(reporting(save));
}

async function save(runId: string, options: SaveOptions): Promise<void> {
  if (!isId(runId)) throw new CommandError(`"${runId}" is not the id of a run`);
  const { settings, extensions } = await openContext();
  const client = await clientOf(options, settings);
  const recorded = await readRecordedRun(client, runId);
  const { run, masked, unread } = savedRun(recorded, new Set(options.keep));
  const { unknown, ...revisions } = await readRevisions(client, recorded, extensions.handlers);
  const test = await withExpectations(run, revisions);
  print(writeSavedTest(test));
  if (unknown.length > 0) printError(`not known here, so that their secrets are not either: ${unknown.join(', ')}\n`);
  if (masked.length > 0) printError(`masked: ${[...new Set(masked)].join(', ')}\n`);
  if (unread.length > 0) printError(`neither JSON nor a form, so kept as it came: ${unread.join(', ')}\n`);
  const did = { end: recorded.status, path: pathOf(recorded) };
  const { end = '', path = {} } = test.expected;
  const differences = diffSnapshots(did, { end, path });
  if (differences.length === 0) return;
  const lines = differences.flatMap(renderDifference);
  const hint = masked.length === 0 ? '' : 'If that is for a masked field that is no credential, name it with --keep.\n';
  printError(`The test does not do what the run did:\n${lines.join('\n')}\n${hint}`);
  process.exitCode = 1;
}

/** What the run did, in the words of a test. */
function pathOf(recorded: RecordedRun): Record<string, string> {
  const reached = stepsByPath(recorded).filter(({ status }) => status !== 'Pending');
  return Object.fromEntries(reached.map((step) => [step.path, endOf(step)]));
}

interface Revisions {
  readonly flows: readonly LoadedFlow[];
  readonly handlers: HandlerTable;
}

async function withExpectations(run: SavedRun, revisions: Revisions): Promise<SavedTest> {
  const result = await runTest({ ...run, expected: {} }, { ...revisions, openStore: openSimulationStore });
  if (result.kind === 'differs' && result.lacking.length === 0) return { ...run, expected: result.actual };
  const problems = result.kind === 'error' ? result.problems : result.kind === 'differs' ? result.lacking : [];
  throw new CommandError(
    ['The run cannot be saved:', ...problems.map(({ path, message }) => `  ${path} ${message}`)].join('\n'),
  );
}

interface ServedManifest {
  readonly name: string;
  readonly triggers?: Readonly<Record<string, unknown>>;
  readonly steps?: Graph;
}

/** The revisions of the run and of the runs that it started. */
async function readRevisions(
  client: ServiceClient,
  recorded: RecordedRun,
  handlers: HandlerTable,
): Promise<Revisions & { readonly unknown: readonly string[] }> {
  const followed = new Map(followedBy(recorded).map((run) => [run.flowId, run]));
  const manifests: ServedManifest[] = [];
  for (const run of followed.values()) manifests.push(await readManifest(client, run));
  const types = new Set(manifests.flatMap(({ steps = {} }) => everyStep(steps).map(({ step }) => step.type)));
  const unknown = [...types].filter((type) => !handlers.has(type));
  const table = handlerTable([...handlers.values(), ...unknown.map(unknownType)]);
  const flows = manifests.map((manifest) => {
    const { flow, errors } = readTestedFlow(JSON.stringify(manifest), `${manifest.name}.json`, table);
    if (flow !== undefined) return flow;
    throw new CommandError(`The manifest of the run cannot be read here:\n${errors.map(formatIssue).join('\n')}`);
  });
  return { flows, handlers: table, unknown };
}

type FollowingRun = Pick<RecordedRun, 'flowId' | 'revision' | 'steps' | 'derived'>;

function followedBy(run: FollowingRun): FollowingRun[] {
  return [run, ...run.derived.flatMap((each) => followedBy(each.run))];
}

/** The manifest with the inputs that its steps used, which may come from a later revision. */
async function readManifest(client: ServiceClient, { flowId, revision, steps }: FollowingRun): Promise<ServedManifest> {
  const read = async (number: number) => {
    const path = `/flows/api/flows/${flowId}/revisions/${number}`;
    return (
      (await client.ask({ method: 'GET', path, like: { manifest: {} } })).body as { readonly manifest: ServedManifest }
    ).manifest;
  };
  const manifest = await read(revision);
  const graph = manifest.steps ?? {};
  const later = new Map<number, Graph>();
  const inputs = new Map<string, StepDefinition['inputs']>();
  for (const { stepKey, attempts } of steps) {
    const from = attempts.at(-1)?.inputsRevision ?? revision;
    if (from === revision) continue;
    const other = later.get(from) ?? (await read(from)).steps ?? {};
    later.set(from, other);
    const found = stepAt(other, stepKey)?.inputs;
    if (found !== undefined) inputs.set(firstIteration(stepKey), found);
  }
  // Triggers judge no delivery here, and their keys are masked.
  const triggers = Object.fromEntries(Object.keys(manifest.triggers ?? {}).map((key) => [key, { type: 'manual' }]));
  return { ...manifest, triggers, steps: withInputs(graph, inputs, '') };
}

const firstIteration = (stepKey: string) => stepKey.replace(/\.\d+\./g, '.0.');

function withInputs(graph: Graph, inputs: ReadonlyMap<string, StepDefinition['inputs']>, scope: string): Graph {
  const entries = Object.entries(graph).map(([key, step]): [string, StepDefinition] => {
    const place = `${scope}${key}`;
    const children = step.steps === undefined ? {} : { steps: withInputs(step.steps, inputs, `${place}.0.`) };
    return [key, { ...step, inputs: inputs.get(place) ?? step.inputs, ...children }];
  });
  return Object.fromEntries(entries);
}

/** The service may have operator code that is missing here. The step is answered and never run. */
function unknownType(type: string): StepHandler {
  const run = () => {
    throw new Error('a step of another place is not run');
  };
  return defineHandler({ type, inputs: z.unknown(), run });
}
