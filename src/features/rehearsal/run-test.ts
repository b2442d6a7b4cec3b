import { compileCondition } from '../../expressions/condition.ts';
import { deliveryData, evaluateFilter } from '../../expressions/delivery-expressions.ts';
import { formatPath, mapStrings } from '../../expressions/json-path.ts';
import { ArrivingBody, declaredBy } from '../../expressions/trigger-body.ts';
import type { HandlerTable } from '../../flows/handlers/index.ts';
import { diffSnapshots } from '../../manifest/diff.ts';
import type { LoadedFlow } from '../../manifest/load.ts';
import { filterOf } from '../../manifest/webhook-fields.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import { flowsStartedBy } from '../../model/manifest.ts';
import { wire } from '../../model/planner.ts';
import type { Store } from '../../store/store.ts';
import { type AnsweredRun, answersFrom, createAnsweredSimulator } from './answered.ts';
import type { Call } from './calls.ts';
import { endOf } from './compare.ts';
import { type SavedTest, type TestProblem, triggerOf } from './saved-test.ts';
import type { ReachedStep, SimulationLimits } from './simulator.ts';
import { problemsOf } from './unknown-names.ts';

/** What tests run with. */
export interface TestedFlows {
  readonly flows: readonly LoadedFlow[];
  readonly handlers: HandlerTable;
  /** Opens an empty store; `runTest` closes it. */
  readonly openStore: () => Promise<Store>;
  readonly limits?: SimulationLimits;
}

/** Result of a test. */
export type TestResult =
  | { readonly kind: 'same' }
  | {
      readonly kind: 'differs';
      /** From the expected to the actual behaviour of the flow. */
      readonly differences: ReturnType<typeof diffSnapshots>;
      /** Answers that the test lacks, by the step that asks; whatever follows from them is unknown. */
      readonly lacking: readonly TestProblem[];
      /** What the flow does now. */
      readonly actual: SavedTest['expected'];
    }
  | { readonly kind: 'error'; readonly problems: readonly TestProblem[] };

/** Far more than a tested run needs: a flow that reaches a limit has a mistake. */
const LIMITS: SimulationLimits = { steps: 100_000, milliseconds: 60_000, bytes: 512 * 1024 * 1024 };

/** Runs a test's flow with its answers, and compares the results. Sends nothing, and waits for nothing. */
export async function runTest(test: SavedTest, tested: TestedFlows): Promise<TestResult> {
  const flow = tested.flows.find(({ manifest }) => manifest.id === test.flow);
  if (flow === undefined) return { kind: 'error', problems: [{ path: 'flow', message: 'no manifest has this id' }] };
  const problems = problemsOf(test, flow, tested.flows);
  if (problems.length > 0) return { kind: 'error', problems };
  if (isFiltered(test.trigger, flow)) return compared(test, { ...NOTHING, end: 'filtered' }, []);
  const run = await simulate(test, { ...tested, flow });
  if (run.stoppedBy !== null) {
    const { steps, milliseconds, bytes } = tested.limits ?? LIMITS;
    const most = {
      steps: `${steps} attempts of steps`,
      milliseconds: `${milliseconds / 1000} s`,
      bytes: `${bytes} bytes of inputs and outputs`,
    }[run.stoppedBy];
    return { kind: 'error', problems: [{ path: '', message: `does not end: it was stopped after ${most}` }] };
  }
  return compared(test, outcomeOf(run, flow), lackingIn(run));
}

type Done = Required<SavedTest['expected']>;

const NOTHING: Omit<Done, 'end'> = { path: {}, requests: {}, waits: {}, outputs: {} };

/** Compares only the parts that the test expects; if it names none, all of them. */
function compared({ expected }: SavedTest, done: Done, lacking: readonly TestProblem[]): TestResult {
  const named = new Set(Object.keys(expected));
  const actual: SavedTest['expected'] = Object.fromEntries(
    Object.entries(done).filter(([name]) => named.size === 0 || named.has(name)),
  );
  const differences = diffSnapshots(expected as JsonObject, actual as JsonObject);
  return differences.length === 0 && lacking.length === 0
    ? { kind: 'same' }
    : { kind: 'differs', differences, lacking, actual };
}

/** Whether the trigger's filter is false, so that the delivery starts no run. Gates are not asked. */
function isFiltered(started: SavedTest['trigger'], { manifest }: LoadedFlow): boolean {
  const trigger = Object.hasOwn(manifest.triggers, started.key) ? manifest.triggers[started.key] : undefined;
  if (started.type !== 'webhook' || trigger?.type !== 'webhook') return false;
  const filter = filterOf(trigger.inputs);
  if (filter === undefined) return false;
  const { body: bytes, contentType, headers } = triggerOf(started);
  const body = new ArrivingBody(bytes, declaredBy({ contentType, headers }));
  const data = deliveryData(headers, body);
  return evaluateFilter(compileCondition(filter.condition, 'delivery'), data) === false;
}

async function simulate(
  { startedAt, trigger, answers, signals }: SavedTest,
  { flow, flows, handlers, openStore, limits = LIMITS }: TestedFlows & { readonly flow: LoadedFlow },
): Promise<AnsweredRun> {
  const store = await openStore();
  try {
    const simulator = await createAnsweredSimulator({ store, flow, flows: startedBy(flow, flows), handlers });
    return await simulator.run({
      trigger: triggerOf(trigger),
      triggerType: trigger.type,
      at: Date.parse(startedAt),
      signals: signals.map(({ step, name, body }) => [name, body, step]),
      answer: answersFrom(answers),
      limits,
    });
  } finally {
    await store.close();
  }
}

/** All flows that a flow may start, directly or indirectly. */
function startedBy(flow: LoadedFlow, flows: readonly LoadedFlow[]): LoadedFlow[] {
  const found = new Set([flow]);
  for (const { manifest } of found) {
    const ids = flowsStartedBy(manifest);
    for (const each of flows) if (ids.includes(each.manifest.id)) found.add(each);
  }
  return [...found].filter((each) => each !== flow);
}

/** What a flow did, as tests compare it: by step path, so that the order of simultaneous steps does not matter. */
function outcomeOf(run: AnsweredRun, flow: LoadedFlow): Done {
  const called = new Set(run.calls.map(({ path }) => path));
  const last = Object.entries(wire(flow.manifest.steps)).flatMap(([key, { downstream }]) =>
    downstream.length === 0 ? [key] : [],
  );
  const left = run.steps.filter(
    ({ path, step }) => last.includes(path) && !called.has(path) && step.status === 'Succeeded',
  );
  const name = namesOf(run.steps);
  const unknown = new Set(run.unanswered);
  return {
    end: unknown.size > 0 && run.run.status === 'Running' ? NOT_KNOWN : run.run.status,
    path: byPath(run.steps.map(({ path, step }) => [path, unknown.has(path) ? NOT_KNOWN : endOf(step)])),
    requests: grouped(run.calls.map((call) => [call.path, requestOf(call)])),
    waits: grouped(run.waits.map(({ path, kind, signal, ms }) => [path, waitText({ kind, signal, ms })])),
    outputs: byPath(left.map(({ path, step }) => [path, name(step.output)])),
  };
}

const NOT_KNOWN = 'not known';

/** The request without the headers that Sluice always sends. */
function requestOf({ type, request, input }: Call): Json {
  if (request === null) return { type, input };
  const { method, url, headers, body } = request;
  const own = Object.entries(headers).filter(
    ([name, value]) =>
      !(name === 'user-agent' && value === 'sluice') && !(name === 'idempotency-key' && /^\[run.*\]:/.test(value)),
  );
  return { method, url, headers: Object.fromEntries(own), body };
}

function waitText({ kind, signal, ms }: Pick<AnsweredRun['waits'][number], 'kind' | 'signal' | 'ms'>): string {
  const what = kind === 'signal' ? `signal ${signal}` : kind;
  return ms === null ? what : `${what}, ${ms / 1000} s`;
}

/** Replaces run ids with stable names. */
function namesOf(steps: readonly ReachedStep[]): (value: Json) => Json {
  const names = new Map(
    steps.map(({ path, step }) => {
      const place = path.slice(0, -step.stepKey.length - 1);
      return [step.runId, place === '' ? '[run]' : `[run ${place}]`] as const;
    }),
  );
  const rename = (text: string) => [...names].reduce((renamed, [id, its]) => renamed.replaceAll(id, its), text);
  return (value) => mapStrings(value, rename);
}

function grouped<Value extends Json>(
  entries: readonly (readonly [path: string, value: Value])[],
): Record<string, Value[]> {
  const groups = new Map<string, Value[]>();
  for (const [path, value] of entries) groups.set(path, [...(groups.get(path) ?? []), value]);
  return byPath([...groups]);
}

/** Sorts by path, so that the order is always the same. */
function byPath<Value>(entries: readonly (readonly [path: string, value: Value])[]): Record<string, Value> {
  return Object.fromEntries(entries.toSorted(([one], [other]) => one.localeCompare(other, 'en', { numeric: true })));
}

function lackingIn({ unanswered, calls }: AnsweredRun): TestProblem[] {
  return unanswered.map((path) => {
    const call = calls.findLast((each) => each.path === path);
    const { attempt = 1, request, type } = call ?? {};
    const asked = request == null ? `${type ?? 'its step'}` : `${request.method} ${request.url}`;
    return {
      path: formatPath(['answers', path, attempt - 1]),
      message: `is missing: the answer to ${asked} is not known`,
    };
  });
}
