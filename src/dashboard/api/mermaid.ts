import { z } from 'zod';
import type { Edge, Graph } from '../../model/manifest.ts';
import { errorSchema, REFUSALS } from '../error-responses.ts';
import { guid, NO_QUERY } from '../input.ts';
import type { ApiRoutes } from '../services.ts';
import { findFlow } from './flows.ts';

/** A flow's graph as a Mermaid flowchart. */
export const mermaidRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/flows/:id/mermaid',
    {
      schema: {
        tags: ['flows'],
        operationId: 'getFlowMermaid',
        summary: 'The steps of a flow as a Mermaid flowchart',
        params: z.object({ id: guid() }),
        querystring: NO_QUERY,
        response: { 200: z.object({ mermaid: z.string() }), ...REFUSALS, 404: errorSchema },
      },
    },
    async (request) => ({ mermaid: mermaidOf(findFlow(request.params.id, services).loaded.manifest.steps) }),
  );
};

/** Node ids are the steps' numbers: a step key may be a word that Mermaid reserves, such as `end`. */
export function mermaidOf(graph: Graph): string {
  return ['flowchart TD', ...linesOf(graph, 'n', '  ')].join('\n');
}

function linesOf(graph: Graph, prefix: string, indent: string): string[] {
  const keys = Object.keys(graph);
  const idOf = (key: string) => `${prefix}${keys.indexOf(key)}`;
  return Object.entries(graph).flatMap(([key, { type, runAfter, steps }]) => {
    const label = `"${text(key)}<br/>${text(type)}"`;
    const node =
      steps === undefined
        ? [`${indent}${idOf(key)}[${label}]`]
        : [
            `${indent}subgraph ${idOf(key)}[${label}]`,
            ...linesOf(steps, `${idOf(key)}_`, `${indent}  `),
            `${indent}end`,
          ];
    const edges = Object.entries(runAfter).map(
      ([upstream, edge]) => `${indent}${idOf(upstream)} -->${labelOf(edge)} ${idOf(key)}`,
    );
    return [...node, ...edges];
  });
}

function labelOf({ statuses, when }: Edge): string {
  const isPlain = statuses.length === 1 && statuses[0] === 'Succeeded';
  const parts = [...(isPlain ? [] : [statuses.join(' or ')]), ...(when === undefined ? [] : [`when ${when}`])];
  return parts.length === 0 ? '' : `|"${text(parts.join(', '))}"|`;
}

/** Mermaid's own escapes, by character code. */
function text(raw: string): string {
  return raw.replace(/[^\w .,()/=+-]/g, (character) => `#${character.codePointAt(0)};`);
}
