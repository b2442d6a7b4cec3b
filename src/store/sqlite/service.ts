import type { Call, FromThread } from './messages.ts';

/** What a thread does with its connection. */
export interface Service {
  take(calls: readonly Call[], bytes: Uint8Array): void;
  /** The reader's part of a checkpoint. */
  checkpoint?(): void;
  /** The writer's part, once the reader has done its. */
  checkpointed?(): void;
  /** Answers what was taken before, then lets go of the database. */
  close(): void;
}

export type Send = (message: FromThread) => void;
