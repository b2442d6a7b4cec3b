import type { Api } from '../../../dashboard/web/api-types.ts';
import type { Graph } from './graph.ts';

/** One reason why a step did not run, or has not run yet. */
interface Reason {
  readonly text: string;
  /** The upstream step that the reason is about. */
  readonly upstream: string | null;
  /** The condition that decided, and the values that it read. */
  readonly condition?: { readonly expression: string; readonly values: Readonly<Record<string, unknown>> } | undefined;
}

interface Asked {
  readonly status: Api['Step']['status'];
  readonly skipReason: string | null;
  readonly evaluationTrace: unknown;
}

/**
 * Explains in words why a step was skipped, or what it still waits for: one reason for each edge that decides.
 * `statusOf` yields the status of an upstream step, or undefined if it is unknown.
 */
export function explain(
  step: Asked,
  { runAfter }: Pick<Graph[string], 'runAfter'>,
  statusOf: (upstreamKey: string) => Api['Step']['status'] | undefined,
): Reason[] {
  if (step.status === 'Skipped') {
    const reasons = [...skippingEdges(runAfter, statusOf), ...falseConditions(step.evaluationTrace)];
    if (reasons.length > 0) return reasons;
    return (step.skipReason ?? '') === '' ? [] : [{ text: sentence(step.skipReason ?? ''), upstream: null }];
  }
  return step.status === 'Pending' ? openEdges(runAfter, statusOf) : [];
}

/** Whether the service allows a retry: not in a stopped run, and not of a loop in which nothing failed. */
export function canRetry(runStatus: Api['Run']['status'], loop: { readonly failed: number } | undefined): boolean {
  return runStatus !== 'Cancelled' && runStatus !== 'TimedOut' && loop?.failed !== 0;
}

/** What to expect of a manual retry of a failed step; agrees with `canRetry`. */
export function retryAdvice(
  { retryable }: { readonly retryable: boolean },
  ...asked: Parameters<typeof canRetry>
): string {
  if (!canRetry(...asked)) return 'The step cannot be retried. Run the whole run again instead.';
  if (retryable) return 'The cause may have passed: a retry may succeed.';
  return 'A retry fails again unless you fix the cause first. A retry uses the inputs of the newest revision, unless the run’s own pins them.';
}

/** The last answer that a polling step got, and why the step did not accept it. */
export function lastPollText({ status, why }: NonNullable<Api['StepOutline']['lastPoll']>): string {
  if (status === null) return `The last request got no answer: ${why}.`;
  return why.includes(`answered ${status}`) ? `Last time, ${why}.` : `The last answer was ${status}, and ${why}.`;
}

function skippingEdges(
  runAfter: Graph[string]['runAfter'],
  statusOf: (key: string) => Api['Step']['status'] | undefined,
): Reason[] {
  return Object.entries(runAfter).flatMap(([upstream, { statuses }]) => {
    const status = statusOf(upstream);
    if (!hasEnded(status) || statuses.includes(status)) return [];
    const happened = status === 'Skipped' ? 'was skipped itself' : `ended as ${status}`;
    return [{ text: `“${upstream}” ${happened}; this step runs only after it ends as ${either(statuses)}.`, upstream }];
  });
}

function openEdges(
  runAfter: Graph[string]['runAfter'],
  statusOf: (key: string) => Api['Step']['status'] | undefined,
): Reason[] {
  return Object.entries(runAfter).flatMap(([upstream, { statuses, when }]) => {
    if (hasEnded(statusOf(upstream))) return [];
    const condition = when === undefined ? '' : ', and only if its condition is true then';
    return [{ text: `It starts after “${upstream}” ends as ${either(statuses)}${condition}.`, upstream }];
  });
}

function falseConditions(trace: unknown): Reason[] {
  return entriesOf(trace)
    .filter(({ result }) => result === false)
    .map(({ after, expression, values }) => ({
      text: `Its condition after “${after}” is false.`,
      upstream: after,
      condition: { expression, values },
    }));
}

/** One condition, evaluated before a step started. */
interface TraceEntry {
  readonly after: string;
  readonly expression: string;
  readonly values: Readonly<Record<string, unknown>>;
  readonly result: boolean | null;
  readonly error: string | null;
}

/** The conditions in a step's record; ignores everything else in it. */
export function entriesOf(trace: unknown): TraceEntry[] {
  if (!Array.isArray(trace)) return [];
  return trace.flatMap((entry: unknown): TraceEntry[] => {
    if (!isRecord(entry)) return [];
    const { after, expression, values, result, error } = entry;
    if (typeof after !== 'string' || typeof expression !== 'string') return [];
    return [
      {
        after,
        expression,
        values: isRecord(values) ? values : {},
        result: typeof result === 'boolean' ? result : null,
        error: typeof error === 'string' ? error : null,
      },
    ];
  });
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function hasEnded(status: Api['Step']['status'] | undefined): status is 'Succeeded' | 'Failed' | 'Skipped' {
  return status === 'Succeeded' || status === 'Failed' || status === 'Skipped';
}

function either(statuses: readonly string[]): string {
  return statuses.length < 2 ? statuses.join() : `${statuses.slice(0, -1).join(', ')} or ${statuses.at(-1)}`;
}

// Some reasons are clauses, such as that of a false condition; the reason why a run was stopped is already a sentence.
const sentence = (text: string) => `${text.slice(0, 1).toUpperCase()}${text.slice(1).replace(/\.$/, '')}.`;

/**
 * Suggests a body for the signal that a step waits for: the members that conditions read, with the values that they are
 * compared with. People then only change values, not the shape.
 */
export function suggestBody(graph: Graph, stepKey: string): Record<string, unknown> {
  // Step keys hold only letters, digits, "_" and "-", so they need no escaping in a pattern.
  const step = `(?<![\\w.])steps(?:\\.${stepKey}|\\["${stepKey}"\\]|\\['${stepKey}'\\])`;
  const read = new RegExp(`${step}\\.output\\.(\\w+)(?:\\s*(?:==|!=)\\s*(${LITERAL}))?`, 'g');
  const values = new Map<string, unknown>();
  for (const { when } of edgesOf(graph)) {
    for (const [, name = '', literal] of when.matchAll(read)) {
      if ((values.get(name) ?? null) === null) values.set(name, literal === undefined ? null : literalValue(literal));
    }
  }
  return Object.fromEntries(values);
}

/** Built-in step types that never wait for a signal; step types of operators may wait for one. */
const SIGNAL_FREE: ReadonlySet<string> = new Set([
  'NoOp',
  'LogMessage',
  'HttpRequest',
  'Delay',
  'Transform',
  'Fail',
  'ForEach',
  'RunFlow',
  'SendAlert',
]);

/** Whether any step of the graph could wait for a signal. */
export function mayAwaitSignal(graph: Graph): boolean {
  return Object.values(graph).some(
    ({ type, steps }) => !SIGNAL_FREE.has(type) || (steps !== undefined && mayAwaitSignal(steps)),
  );
}

/** The literals that conditions compare with: booleans, numbers, and strings without escapes. */
const LITERAL = String.raw`true|false|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|"[^"\\]*"|'[^'\\]*'`;

function literalValue(literal: string): unknown {
  return literal.startsWith("'") ? literal.slice(1, -1) : JSON.parse(literal);
}

function edgesOf(graph: Graph): { when: string }[] {
  return Object.values(graph).flatMap(({ runAfter, steps }) => [
    ...Object.values(runAfter).flatMap(({ when }) => (when === undefined ? [] : [{ when }])),
    ...(steps === undefined ? [] : edgesOf(steps)),
  ]);
}
