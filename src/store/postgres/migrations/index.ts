import { initial } from './0001-initial.ts';
import { wakeUps } from './0002-wake-ups.ts';
import { instances } from './0003-instances.ts';
import { searchKeys } from './0004-search-keys.ts';
import { standing } from './0005-standing.ts';
import { alerts } from './0006-alerts.ts';
import { keys } from './0007-keys.ts';
import { payloads } from './0008-payloads.ts';
import { hosts } from './0009-hosts.ts';
import { subRuns } from './0010-sub-runs.ts';

/**
 * One step of the schema. Never changed once released: a database that has it will not run it again.
 *
 * The SQL names tables in the schema `sluice`, and what belongs to graphile-worker in `graphile_worker`; a database with
 * another schema gets the same with its names.
 */
export interface Migration {
  /** Grows from one to the next. */
  readonly version: number;
  readonly name: string;
  /** The oldest version of the schema whose release still works on a database that has this one. */
  readonly compatibleFrom: number;
  readonly sql: string;
}

/** The schema's history in order; append only. A migration imports nothing, so that no later change of code changes it. */
export const migrations: readonly Migration[] = [
  initial,
  wakeUps,
  instances,
  searchKeys,
  standing,
  alerts,
  keys,
  payloads,
  hosts,
  subRuns,
];
