import type { Graph } from '../graph/graph.ts';

/**
 * A body for the signal that a step waits for: the members that conditions after it read, with the values that they
 * are compared with. What somebody then changes is a value and not the shape.
 */
export function suggestBody(graph: Graph, stepKey: string): Record<string, unknown> {
  const read = new RegExp(
    `steps\\.${stepKey}\\.output\\.(\\w+)(?:\\s*(?:==|!=)\\s*(true|false|-?\\d+(?:\\.\\d+)?|"[^"\\\\]*"))?`,
    'g',
  );
  const body: Record<string, unknown> = {};
  for (const { when } of edgesOf(graph)) {
    for (const [, name = '', literal] of when.matchAll(read)) {
      body[name] ??= literal === undefined ? null : (JSON.parse(literal) as unknown);
    }
  }
  return body;
}

function edgesOf(graph: Graph): { when: string }[] {
  return Object.values(graph).flatMap(({ runAfter, steps }) => [
    ...Object.values(runAfter).flatMap(({ when }) => (when === undefined ? [] : [{ when }])),
    ...(steps === undefined ? [] : edgesOf(steps)),
  ]);
}

/** What is wrong with a text as JSON, in one line; null where nothing is. An empty text is null. */
export function jsonProblem(text: string): string | null {
  if (text.trim() === '') return null;
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : 'is not JSON';
  }
}
