import { AssertionError } from 'node:assert';
import { relative } from 'node:path';
import { z } from 'zod';
import { stepTypes } from '../../config/steps.ts';
import { defineHandler, type HandlerResult, type StepContext, type StepHandler } from '../../flows/handlers/handler.ts';
import { type HandlerTable, handlerTable } from '../../flows/handlers/index.ts';
import { operatorHandler } from '../../flows/operator-handler.ts';
import { formatIssue, type ManifestIssue } from '../../manifest/issues.ts';
import type { LoadedFlow } from '../../manifest/load.ts';
import { readManifest } from '../../manifest/parse.ts';
import type { Json } from '../../model/json.ts';
import { openSimulationStore } from '../../store/offline.ts';
import { renderTest } from './render-test.ts';
import { runTest } from './run-test.ts';
import type { SimulatedRun } from './simulated-run.ts';
import { createSimulator, type SimulatedStart } from './simulator.ts';
import { findTestFiles, readTestedFlows, readTestFile } from './test-files.ts';

/** Replaces a step type: yields the step's output, or a handler result. An error fails the step. */
export type Stub = (context: StepContext<Json>) => Json | HandlerResult | Promise<Json | HandlerResult>;

export interface RunFlowOptions {
  /** What expressions read as `trigger.body`; null if not given. */
  readonly body?: Json;
  /** Names in any case; expressions read them in lower case, as in a request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Key of the trigger; defaults to the manifest's first. */
  readonly trigger?: string;
  /** Stubs and handlers by step type; they replace built-in ones. */
  readonly handlers?: Readonly<Record<string, Stub | StepHandler>>;
  /**
   * Manifests of the flows that `RunFlow` steps run, directly or through other flows: they run for real. A step whose
   * flow is missing fails with `flow_not_pinned`; with a stub of `RunFlow` among `handlers`, none of them run.
   */
  readonly flows?: readonly unknown[];
  /** Signals by name, sent when nothing else is left to do. */
  readonly signals?: Readonly<Record<string, Json>>;
  /** Values of `env:NAME` and `file:PATH` references, by the whole reference; triggers need none. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** What expressions read as `vars`. */
  readonly vars?: Readonly<Record<string, string>>;
  /** When the run starts; defaults to the present. */
  readonly startAt?: Date;
  readonly egressAllow?: readonly string[];
}

export type TestedRun = SimulatedRun;

/**
 * Runs a manifest in memory and yields how it ended. Time jumps to whatever is due next, so a delay of a week takes no
 * time. A run that waits for a signal that is not given is returned while it is still `Running`. Throws if the manifest
 * has errors, with one line for each.
 *
 * @example
 * const run = await runFlow(manifest, { body: { total: 7 }, handlers: { HttpRequest: () => ({ status: 200 }) } });
 * assert.equal(run.steps.charge.status, 'Succeeded');
 */
export async function runFlow(manifest: unknown, options: RunFlowOptions = {}): Promise<TestedRun> {
  const handlers = tableOf(options);
  const flow = parse(manifest, handlers, options);
  const flows = (options.flows ?? []).map((each) => parse(each, handlers, options));
  const store = await openSimulationStore();
  try {
    const simulator = await createSimulator({ store, flow, flows, handlers, readSecret: secretsOf(options) });
    return (await simulator.run(startOf(flow, options))).run;
  } finally {
    await store.close();
  }
}

function tableOf({ handlers = {}, egressAllow = [] }: RunFlowOptions): HandlerTable {
  const own = Object.entries(handlers).map(([type, given]) =>
    operatorHandler(typeof given === 'function' ? stubOf(type, given) : given),
  );
  const replaced = new Set(Object.keys(handlers));
  return handlerTable([...stepTypes({ egressAllow }).handlers.filter(({ type }) => !replaced.has(type)), ...own]);
}

function stubOf(type: string, stub: Stub): StepHandler {
  return defineHandler({
    type,
    inputs: z.unknown(),
    secretInputs: ['headers.*', 'query.*', 'url'],
    run: async (context) => {
      const given = await stub(context as StepContext<Json>);
      return isResult(given) ? given : { kind: 'succeeded', output: given };
    },
  });
}

function isResult(given: Json | HandlerResult): given is HandlerResult {
  if (typeof given !== 'object' || given === null || !('kind' in given)) return false;
  return given.kind === 'succeeded' || given.kind === 'failed' || given.kind === 'waiting';
}

function parse(manifest: unknown, handlers: HandlerTable, options: RunFlowOptions): LoadedFlow {
  const text = typeof manifest === 'string' ? manifest : JSON.stringify(manifest);
  const rules = {
    handlers,
    readSecret: secretsOf(options),
    strict: false,
    checks: [],
    sealsSecrets: true,
    vars: options.vars,
  };
  const { flow, issues } = readManifest(text, 'manifest.json', rules);
  // No delivery is verified here, so secrets of triggers can be missing.
  const isUnread = ({ path, message }: ManifestIssue) => message === NOT_GIVEN && /^triggers\b/i.test(path);
  const isWrong = issues.some((issue) => issue.severity === 'error' && !isUnread(issue));
  if (flow !== undefined && !isWrong) return flow;
  throw new Error(`The manifest cannot be run:\n${issues.map(formatIssue).join('\n')}`);
}

const NOT_GIVEN = 'is not among the secrets given';

function secretsOf({ secrets = {} }: RunFlowOptions) {
  return (reference: string) =>
    Object.hasOwn(secrets, reference) ? { value: secrets[reference] ?? '' } : { error: NOT_GIVEN };
}

function startOf(flow: LoadedFlow, options: RunFlowOptions): SimulatedStart {
  const { triggers } = flow.manifest;
  const key = options.trigger ?? Object.keys(triggers)[0] ?? 'manual';
  const body = options.body === undefined ? Buffer.alloc(0) : Buffer.from(JSON.stringify(options.body));
  return {
    trigger: { key, body, contentType: 'application/json', headers: lowerCase(options.headers ?? {}) },
    triggerType: triggers[key]?.type ?? 'manual',
    at: (options.startAt ?? new Date()).getTime(),
    signals: Object.entries(options.signals ?? {}),
  };
}

function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

export interface TestFilesOptions {
  /** The folder of manifests; defaults to `manifests` in the working directory. */
  readonly manifests?: string;
  /** Custom step types. They are never called: the files contain their answers. */
  readonly handlers?: readonly StepHandler[];
}

/** One file of `sluice test save`. */
export interface TestCase {
  /** Path of the file, relative to the folder. */
  readonly name: string;
  /** Rejects if the flow does not do what the file expects; the error has both, for the runner to show. */
  readonly run: () => Promise<void>;
}

/**
 * Yields the tests in a folder and below, as cases for a test runner. Nothing is sent, no time passes and no secret is
 * read. Rejects if a manifest has errors, with one line for each.
 *
 * @example
 * test.each(await testFiles('tests'))('$name', ({ run }) => run());
 */
export async function testFiles(folder: string, options: TestFilesOptions = {}): Promise<TestCase[]> {
  const { manifests = 'manifests', handlers: own = [] } = options;
  const handlers = handlerTable([...stepTypes().handlers, ...own]);
  const { flows, issues } = await readTestedFlows(manifests, handlers);
  if (issues.length > 0) throw new Error(`The manifests cannot be run:\n${issues.map(formatIssue).join('\n')}`);
  const cases: TestCase[] = [];
  for (const file of await findTestFiles(folder)) {
    const read = await readTestFile(file);
    if (read === undefined) continue;
    const name = relative(folder, file);
    const run = async () => {
      const result =
        'test' in read
          ? await runTest(read.test, { flows, handlers, openStore: openSimulationStore })
          : { kind: 'error' as const, ...read };
      if (result.kind === 'same') return;
      const message = renderTest(name, result);
      const actual = result.kind === 'differs' ? result.actual : undefined;
      throw new AssertionError({ message, expected: 'test' in read ? read.test.expected : undefined, actual });
    };
    cases.push({ name, run });
  }
  return cases;
}
