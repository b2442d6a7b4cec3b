import { initial } from './0001-initial.ts';
import { deliveryLog } from './0002-delivery-log.ts';
import { runtime } from './0003-runtime.ts';
import { deploys } from './0004-deploys.ts';
import { learnedKeys } from './0005-learned-keys.ts';
import { figures } from './0006-figures.ts';
import { bounds } from './0007-bounds.ts';
import { loops } from './0008-loops.ts';
import { slots } from './0009-slots.ts';
import { largeRows } from './0010-large-rows.ts';
import { scheduleRevisions } from './0011-schedule-revisions.ts';
import { fewerIndexes } from './0012-fewer-indexes.ts';
import { activity } from './0013-activity.ts';
import { searchKeys } from './0014-search-keys.ts';
import { standing } from './0015-standing.ts';
import { alerts } from './0016-alerts.ts';
import { keys } from './0017-keys.ts';
import { payloads } from './0018-payloads.ts';
import { hosts } from './0019-hosts.ts';
import { subRuns } from './0020-sub-runs.ts';

/** One step of the schema. Never changed once released: a database that has it will not run it again. */
export interface Migration {
  /** Grows from one to the next. */
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}

/** The schema's history in order; append only. A migration imports nothing, so that no later change of code changes it. */
export const migrations: readonly Migration[] = [
  initial,
  deliveryLog,
  runtime,
  deploys,
  learnedKeys,
  figures,
  bounds,
  loops,
  slots,
  largeRows,
  scheduleRevisions,
  fewerIndexes,
  activity,
  searchKeys,
  standing,
  alerts,
  keys,
  payloads,
  hosts,
  subRuns,
];
