/** Work that is done one after the other, in the order in which it was asked for. */
interface SerialQueue {
  /** Starts when all work before it has ended, whether or not that failed; settles as the work does. */
  run<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Resolves when all work so far has ended; never rejects. */
  ended(): Promise<void>;
}

export function serially(): SerialQueue {
  let last: Promise<unknown> = Promise.resolve();
  return {
    run(work) {
      const running = last.then(work);
      last = running.catch(() => {});
      return running;
    },
    async ended() {
      await last;
    },
  };
}
