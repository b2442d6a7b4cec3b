/** Runs work one after the other, in the order of the calls. */
interface SerialQueue {
  /** Starts when all earlier work has ended, even if it failed; settles as the work does. */
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
