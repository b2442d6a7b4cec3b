import { access, constants, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, relative, resolve } from 'node:path';
import { Command } from 'commander';
import { CommandError, openContext, printJson, reporting } from '../../commands/context.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { formatIssue } from '../../manifest/issues.ts';
import { whyUnread } from '../../manifest/read-file.ts';
import { codeOf } from '../../model/error-kind.ts';
import { openSimulationStore } from '../../store/offline.ts';
import { print, printError } from '../../telemetry/terminal.ts';
import { addRehearsal } from './check-rehearsal.ts';
import { type RunTestFile, renderTest } from './render-test.ts';
import { runTest, type TestedFlows } from './run-test.ts';
import { writeSavedTest } from './saved-test.ts';
import { findTestFiles, readTestedFlows, readTestFile } from './test-files.ts';
import { saveCommand } from './test-save.ts';

interface TestOptions {
  readonly manifests?: string;
  readonly update?: true;
  readonly json?: true;
}

function testCommand(): Command {
  return new Command('test')
    .helpGroup(HELP.flows)
    .description('Run saved tests through the manifests: compare what each run would do now with what is expected')
    .argument('[files...]', 'tests, or folders of them; default: every *.test.json beside the folder of manifests')
    .option('--manifests <folder>', 'the folder of manifests; default: the manifests folder of the settings')
    .option('--update', 'write what the flows do now into the tests that differ')
    .option('--json', 'print the results as JSON')
    .addCommand(saveCommand())
    .addHelpText(
      'after',
      '\nNothing is sent, no time passes and no secret is read. Exits with 0 if every run does what is expected, with 1 if one\n' +
        'differs, and with 2 if a test or a manifest has an error.',
    )
    .action(reporting(test));
}

async function test(names: readonly string[], options: TestOptions): Promise<void> {
  const { settings, extensions } = await openContext(options.manifests);
  const { handlers } = extensions;
  // An environment variable takes precedence in the settings, and an option over both.
  const manifests = options.manifests ?? settings.manifests;
  const { flows, issues } = await readTestedFlows(manifests, handlers);
  const outcomes: { readonly file: string; readonly outcome: RunTestFile }[] = [];
  const places = names.length === 0 ? [folderAround(manifests)] : names;
  for (const { path, isNamed } of await filesOf(places)) {
    const outcome = await runFile(path, {
      tested: { flows, handlers, openStore: openSimulationStore },
      isNamed,
      ...options,
    });
    if (outcome !== undefined) outcomes.push({ file: relative(process.cwd(), path), outcome });
  }
  if (outcomes.length === 0)
    throw new CommandError(`There is no test in ${places.join(', ')}; sluice test save makes one`);
  for (const issue of issues) printError(`${formatIssue(issue)}\n`);
  if (options.json)
    printJson(outcomes.map(({ file, outcome: { kind, ...rest } }) => ({ file, result: kind, ...rest })));
  else
    print(`${outcomes.map(({ file, outcome }) => renderTest(file, outcome)).join('\n')}\n\n${summaryOf(outcomes)}\n`);
  const kinds = new Set(outcomes.map(({ outcome }) => outcome.kind));
  process.exitCode = kinds.has('error') || issues.length > 0 ? 2 : kinds.has('differs') ? 1 : 0;
}

interface TestPath {
  readonly path: string;
  /** Named by the caller, so it must be a test. */
  readonly isNamed: boolean;
}

async function filesOf(places: readonly string[]): Promise<TestPath[]> {
  const found = new Map<string, TestPath>();
  for (const place of places) {
    const path = resolve(place);
    const isFolder = (await stat(path).catch(() => undefined))?.isDirectory() === true;
    const paths = isFolder ? await filesIn(path) : [path];
    for (const each of paths) found.set(each, { path: each, isNamed: !isFolder });
  }
  return [...found.values()];
}

async function filesIn(folder: string): Promise<string[]> {
  try {
    return await findTestFiles(folder);
  } catch (error) {
    throw new CommandError(`${folder}: cannot be read: ${codeOf(error)}`);
  }
}

/** The folder to search for tests; never the root of the file system. */
function folderAround(manifests: string): string {
  const folder = resolve(manifests);
  const around = dirname(folder);
  return dirname(around) === around ? folder : around;
}

interface FileOptions extends Pick<TestOptions, 'update'> {
  readonly tested: TestedFlows;
  readonly isNamed: boolean;
}

/** Undefined for a file of another tool. */
async function runFile(path: string, { tested, isNamed, update }: FileOptions): Promise<RunTestFile | undefined> {
  const failed = (message: string): RunTestFile => ({ kind: 'error', problems: [{ path: '', message }] });
  const read = await readTestFile(path).catch((error: unknown) => failed(whyUnread(error)));
  if (read === undefined) return isNamed ? failed('is not a saved test') : undefined;
  if ('kind' in read) return read;
  if ('problems' in read) return { kind: 'error', problems: read.problems };
  const result = await runTest(read.test, tested);
  // If an answer is unknown, an update would make the test expect that nothing follows.
  if (result.kind !== 'differs' || update !== true || result.lacking.length > 0) return result;
  try {
    await replaceFile(path, writeSavedTest({ ...read.test, expected: result.actual }));
  } catch (error) {
    return failed(`cannot be written: ${codeOf(error)}`);
  }
  return { kind: 'updated', differences: result.differences };
}

/** Writes the whole file or nothing, even if the disk is full or the process stops; keeps a link a link. */
async function replaceFile(path: string, text: string): Promise<void> {
  const target = await realpath(path);
  await access(target, constants.W_OK);
  const { mode } = await stat(target);
  const written = `${target}.${process.pid}.tmp`;
  try {
    await writeFile(written, text, { flag: 'wx', mode });
    await rename(written, target);
  } catch (error) {
    await rm(written, { force: true });
    throw error;
  }
}

const MEANINGS: Readonly<Record<RunTestFile['kind'], string>> = {
  same: 'same',
  updated: 'updated',
  differs: 'different',
  error: 'with an error',
};

function summaryOf(outcomes: readonly { readonly outcome: RunTestFile }[]): string {
  const counts = Object.entries(MEANINGS).flatMap(([kind, meaning]) => {
    const count = outcomes.filter(({ outcome }) => outcome.kind === kind).length;
    return count === 0 ? [] : [`${count} ${meaning}`];
  });
  return `${outcomes.length} ${outcomes.length === 1 ? 'test' : 'tests'}: ${counts.join(', ')}.`;
}

export const rehearsalCommand: CommandPart = {
  name: 'rehearsal',
  commands: [testCommand],
  additions: { check: addRehearsal },
};
