import type { Graph } from '../graph/graph.ts';

/**
 * A body for the signal that a step waits for: the members that conditions after it read, with the values that they
 * are compared with. A person then changes values, not the shape.
 */
export function suggestBody(graph: Graph, stepKey: string): Record<string, unknown> {
  // The keys of steps hold letters, digits, "_" and "-" alone: none of them means something in a pattern.
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

/** Built-in step types that never wait for a signal; one of the operator's may. */
const SIGNAL_FREE: ReadonlySet<string> = new Set([
  'NoOp',
  'LogMessage',
  'HttpRequest',
  'Delay',
  'Transform',
  'Fail',
  'ForEach',
  'RunFlow',
]);

/** Whether a run of the graph could do anything with a signal. */
export function mayAwaitSignal(graph: Graph): boolean {
  return Object.values(graph).some(
    ({ type, steps }) => !SIGNAL_FREE.has(type) || (steps !== undefined && mayAwaitSignal(steps)),
  );
}

/** What conditions compare with: a truth value, a number, or a text without escapes. */
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
