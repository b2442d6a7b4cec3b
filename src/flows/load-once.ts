/** A fault of Sluice itself, such as a part that cannot be loaded: neither the caller nor another host caused it. */
export class InternalFaultError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'InternalFaultError';
  }
}

/**
 * Loads a part of Sluice when it is first needed. A failed load is tried again at the next call: the file may have been
 * away while a release was replaced. Rejects with `InternalFaultError`.
 */
export function loadOnce<T>(load: () => Promise<T>): () => Promise<T> {
  let loaded: Promise<T> | undefined;
  return () => {
    loaded ??= load().catch((cause) => {
      loaded = undefined;
      if (cause instanceof InternalFaultError) throw cause;
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new InternalFaultError(`a part of Sluice cannot be loaded: ${why}`, { cause });
    });
    return loaded;
  };
}
