import type { Graph } from '../graph/graph.ts';

/** What the page reads of a manifest; the API gives it in canonical spelling, whatever its author wrote. */
export interface ReadManifest {
  readonly steps: Graph;
  readonly triggers: Readonly<Record<string, { readonly inputs?: Readonly<Record<string, unknown>> }>>;
}

export function readManifest(manifest: unknown): ReadManifest {
  const { steps = {}, triggers = {} } = (manifest ?? {}) as Partial<ReadManifest>;
  return { steps, triggers };
}
