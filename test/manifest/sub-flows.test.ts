import fc from 'fast-check';
import { expect, it } from 'vitest';
import { chainText, refusedChain } from '../../src/manifest/sub-flows.ts';
import { MAX_FLOW_DEPTH } from '../../src/model/manifest.ts';

type Edges = Readonly<Record<string, readonly string[]>>;

/** Any flows that run each other in any way; mostly few flows, so that there are cycles. */
const anyFlows = fc.integer({ min: 1, max: 12 }).chain((count) =>
  fc.array(fc.tuple(fc.nat(count - 1), fc.nat(count - 1)), { maxLength: 14 }).map((pairs): Edges => {
    const edges: Record<string, string[]> = {};
    for (const [from, to] of pairs) edges[`f${from}`] = [...(edges[`f${from}`] ?? []), `f${to}`];
    return edges;
  }),
);

/** Every chain of flows that starts with one, up to a chain that is too long or returns to the first flow. */
function chainsFrom(edges: Edges, way: readonly string[]): (readonly string[])[] {
  const last = way.at(-1) ?? '';
  const isOver = (way.length > 1 && last === way[0]) || way.length > MAX_FLOW_DEPTH;
  const next = isOver ? [] : (edges[last] ?? []);
  return next.length === 0 ? [way] : next.flatMap((id) => chainsFrom(edges, [...way, id]));
}

it('a flow is refused if and only if a chain of flows from it comes back to it or is too long', () => {
  fc.assert(
    fc.property(anyFlows, (edges) => {
      for (const flowId of ['f0', 'f1']) {
        const found = refusedChain(flowId, (id) => edges[id] ?? []);
        const chains = chainsFrom(edges, [flowId]);
        const isCycle = (way: readonly string[]) => way.length > 1 && way.at(-1) === flowId;
        const isRefused = chains.some((way) => isCycle(way) || way.length > MAX_FLOW_DEPTH);
        expect(found !== undefined, JSON.stringify(edges)).toBe(isRefused);
        if (found === undefined) continue;
        // The reported chain exists.
        const { kind, flowIds } = found;
        for (const [n, id] of flowIds.slice(1).entries()) expect(edges[flowIds[n] ?? '']).toContain(id);
        expect(flowIds[0]).toBe(flowId);
        if (kind === 'cycle') expect(flowIds.at(-1)).toBe(flowId);
        else expect(flowIds).toHaveLength(MAX_FLOW_DEPTH + 1);
      }
    }),
    { numRuns: 300 },
  );
});

it('a chain of as many flows as may be is accepted, and its text names each flow of a longer one', () => {
  const chain = (length: number) => (id: string) => (Number(id) < length ? [String(Number(id) + 1)] : []);
  expect(refusedChain('1', chain(MAX_FLOW_DEPTH))).toBeUndefined();
  const tooDeep = refusedChain('1', chain(MAX_FLOW_DEPTH + 1));
  expect(tooDeep && chainText(tooDeep, (id) => `flow ${id}`)).toMatch(
    /^makes a chain of more than 8 .*: flow 1 → .* → flow 9$/,
  );
});
