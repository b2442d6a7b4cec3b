import type { Json } from '../model/json.ts';

export type LiveEventType =
  | 'run.started'
  | 'step.started'
  | 'step.completed'
  | 'step.retried'
  | 'run.completed'
  | 'delivery.received';

/** Something that has just happened, for whoever watches. */
export interface LiveEvent {
  readonly type: LiveEventType;
  /** Null where no run belongs to it. */
  readonly runId: string | null;
  readonly data: { readonly [key: string]: Json };
}

/** Hands events to those who listen now; whoever comes later reads the records. */
export interface LiveEvents {
  emit(event: LiveEvent): void;
  /** Yields the function that ends it. A listener must not throw. */
  subscribe(listener: (event: LiveEvent) => void): () => void;
}

export function createLiveEvents(): LiveEvents {
  const listeners = new Set<(event: LiveEvent) => void>();
  return {
    emit(event) {
      for (const listener of listeners) listener(event);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
