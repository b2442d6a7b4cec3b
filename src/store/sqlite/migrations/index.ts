import { initial } from './0001-initial.ts';
import type { Migration } from './migration.ts';

/** The schema's history in order; append only. */
export const migrations: readonly Migration[] = [initial];
