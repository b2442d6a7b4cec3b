import type { Reconcile } from '../log-schema.ts';
import type { Source } from '../source.ts';
import { githubSource } from './github.ts';
import { graphSource } from './graph.ts';
import { listSource, shopifySource, stripeSource } from './list.ts';

type Sources = { readonly [From in Reconcile['from']]: (config: Extract<Reconcile, { from: From }>) => Source };

const SOURCES: Sources = {
  github: githubSource,
  stripe: stripeSource,
  shopify: shopifySource,
  graph: graphSource,
  list: listSource,
};

/** The log that a trigger names, with its secrets read. */
export function sourceOf(config: Reconcile): Source {
  return (SOURCES[config.from] as (config: Reconcile) => Source)(config);
}
