import { z } from 'zod';
import type { ReconcileRule } from './reconcile-fields.ts';
import { githubRule, githubSchema } from './reconcile-github.ts';

/** Where what a trigger never got is fetched: one form for each kind of log, told apart by `from`. */
export const reconcileSchema = z
  .discriminatedUnion('from', [githubSchema])
  .describe('The publisher’s own log: what it says it sent and was never accepted is fetched, and accepted once.');

/** As written, its secrets not read; the same form holds it with its secrets read. */
export type Reconcile = Readonly<z.output<typeof reconcileSchema>>;

export const RECONCILE_RULES: Readonly<Record<Reconcile['from'], ReconcileRule>> = {
  github: githubRule,
};
