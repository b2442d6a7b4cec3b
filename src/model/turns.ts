/** Work that is done one after the other, in the order in which it was asked for. */
interface Turns {
  /** Starts when all work before it has ended, whether or not that failed; settles as the work does. */
  take<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Resolves when all work so far has ended; never rejects. */
  ended(): Promise<void>;
}

export function createTurns(): Turns {
  let last: Promise<unknown> = Promise.resolve();
  return {
    take(work) {
      const turn = last.then(work);
      last = turn.catch(() => {});
      return turn;
    },
    async ended() {
      await last;
    },
  };
}
