import type { ChainKey } from '../sealed-body.ts';
import type { Store } from '../store.ts';

/** The path of a store that ends when it is closed. */
export const inMemory = ':memory:';

/** The place and the bounds of the delivery log: see `boundLog`. */
interface LogOptions {
  readonly inMemory: boolean;
  readonly maxRows: number;
  readonly maxBytes: number;
}

export interface StoreOptions {
  readonly log: LogOptions;
  /** Limits for all deliveries together that are held until their flow starts runs. */
  readonly held: { readonly maxRows: number; readonly maxBytes: number };
  readonly chainKey: ChainKey | undefined;
}

/** The members of the store that are one transaction each. */
export type OperationName = Exclude<
  keyof Store,
  | 'close'
  | 'changes'
  | 'runChanged'
  | 'watchRuns'
  | 'onDue'
  | 'replica'
  | 'of'
  | 'beat'
  | 'beginHousekeeping'
  | 'listReplicas'
>;

/** A member as it runs in its thread, inside its transaction, as a `Job` of a batch. */
export type Member<Name extends OperationName> = (...args: Parameters<Store[Name]>) => Awaited<ReturnType<Store[Name]>>;

export type ThreadRole = 'writer' | 'reader';

// Frequent values cross threads as lists: a clone writes the field names of an object again for each object, so that an
// acceptance as an object took 5.8 µs to send and 6.3 µs to receive, as a list 2.8 and 1.8.

/** One call of a member of the store. */
export type Call = readonly [
  /** Names the call in its answer. */
  id: number,
  name: OperationName,
  args: readonly unknown[],
  /** Length of its body among the message's bytes, which is one more argument; undefined if it has none. */
  bodyBytes: number | undefined,
];

export type Answer = readonly [id: number, value: unknown, failure?: Failure];

/** An error in the form that crosses threads; a clone would lose SQLite's code. */
export interface Failure {
  readonly message: string;
  readonly code: string | undefined;
}

export type ToThread =
  | { readonly kind: 'open'; readonly path: string; readonly role: ThreadRole; readonly options: StoreOptions }
  /** Without bytes if no call has a body. */
  | { readonly kind: 'calls'; readonly calls: readonly Call[]; readonly bytes?: Uint8Array }
  /** To the reader: copy the log into the database file while the writer commits. */
  | { readonly kind: 'checkpoint' }
  /** To the writer: the reader has done so. */
  | { readonly kind: 'checkpointed' }
  /** To the writer: the file is malformed; refuse every call from now on. */
  | { readonly kind: 'lost'; readonly failure: Failure }
  /** Finish what came before, then release the database; the thread ends, unless another store follows. */
  | { readonly kind: 'close'; readonly isLast: boolean };

/** A thread's findings when it opened the database; a reader has none. */
export interface Opened {
  /** There was no database before. */
  readonly isNew: boolean;
  /** Triggers, views and indexes that no migration made. */
  readonly foreign: readonly string[];
}

export type FromThread =
  /** From the writer: it changes the schema of an existing database. */
  | { readonly kind: 'migrating'; readonly names: readonly string[] }
  | ({ readonly kind: 'opened' } & Opened)
  | { readonly kind: 'notOpened'; readonly failure: Failure }
  | { readonly kind: 'answers'; readonly answers: readonly Answer[]; readonly commitSeconds?: number | undefined }
  /** From the writer: the log has grown enough for a checkpoint. */
  | { readonly kind: 'logGrown' }
  | { readonly kind: 'checkpointed' }
  /** The database is released, and the thread waits for another store. */
  | { readonly kind: 'closed' }
  /** The database file is missing or malformed: nothing can be written any more. */
  | { readonly kind: 'lost'; readonly failure: Failure };
