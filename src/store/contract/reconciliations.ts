import type { Json } from '../../model/json.ts';
import type { TriggerName } from '../../model/trigger-name.ts';

/** Which process asks a trigger's publisher what it sent, and what came of it. */
export interface ReconciliationStore {
  /**
   * Lets a process ask until then, where nobody else does and nobody asked since `lastBefore`; yields what the last one noted.
   * Undefined where it may not. A time that is further ahead than `until` was written by a clock that was fast, and counts for nothing.
   */
  takeReconciliation(take: ReconciliationTake): Promise<StoredReconciliation | undefined>;
  /** Notes what came of it so far and goes on until then; false where another process asks now, and then nothing is noted. */
  renewReconciliation(renewal: ReconciliationLease & StoredReconciliation): Promise<boolean>;
  /** Notes what came of it, and lets others ask; false where another process asks now, and then nothing is noted. */
  endReconciliation(end: ReconciliationEnd): Promise<boolean>;
  listReconciliations(): Promise<ReconciliationRow[]>;
}

interface ReconciliationLease extends TriggerName {
  readonly owner: string;
  readonly until: number;
}

interface ReconciliationTake extends ReconciliationLease {
  readonly now: number;
  readonly lastBefore: number;
}

interface StoredReconciliation {
  /** As its process wrote it; null where none did. */
  readonly state: Json;
}

interface ReconciliationEnd extends TriggerName, StoredReconciliation {
  readonly owner: string;
  /** When this one began. */
  readonly lastAt: number;
}

export interface ReconciliationRow extends TriggerName, StoredReconciliation {
  /** Null where none has ended. */
  readonly lastAt: number | null;
}
