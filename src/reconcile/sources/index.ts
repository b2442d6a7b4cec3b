import type { Reconcile } from '../../manifest/reconcile.ts';
import type { Source } from '../source.ts';
import { githubSource } from './github.ts';

type Sources = { readonly [From in Reconcile['from']]: (config: Extract<Reconcile, { from: From }>) => Source };

const SOURCES: Sources = {
  github: githubSource,
};

/** The log that a trigger names; its secrets are read. */
export function sourceOf(config: Reconcile): Source {
  return (SOURCES[config.from] as (config: Reconcile) => Source)(config);
}
