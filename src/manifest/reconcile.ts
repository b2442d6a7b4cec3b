import { z } from 'zod';
import type { ReconcileRule } from './reconcile-fields.ts';
import { githubRule, githubSchema } from './reconcile-github.ts';
import { graphRule, graphSchema } from './reconcile-graph.ts';
import { listRule, listSchema } from './reconcile-list.ts';
import { shopifyRule, shopifySchema } from './reconcile-shopify.ts';
import { stripeRule, stripeSchema } from './reconcile-stripe.ts';

/** Where what a trigger never got is fetched: one form for each kind of log, told apart by `from`. */
export const reconcileSchema = z
  .discriminatedUnion('from', [githubSchema, stripeSchema, shopifySchema, graphSchema, listSchema])
  .describe('The publisher’s own log: what it says it sent and was never accepted is fetched, and accepted once.');

/** As written, its secrets not read; the same form holds it with its secrets read. */
export type Reconcile = Readonly<z.output<typeof reconcileSchema>>;

export const RECONCILE_RULES: Readonly<Record<Reconcile['from'], ReconcileRule>> = {
  github: githubRule,
  stripe: stripeRule,
  shopify: shopifyRule,
  graph: graphRule,
  list: listRule,
};
