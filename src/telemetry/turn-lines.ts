/** Passes on lines of the log in turns of the event loop. */
interface TurnLines {
  write(line: string): void;
  /** Passes on the held lines. */
  flush(): void;
}

/**
 * Passes on the first line of a turn at once, so that it is out whatever the turn does next; later lines follow
 * together at the turn's end. Under load a turn has dozens, and passing them on one by one cost twice as much.
 */
export function createTurnLines(handOn: (lines: string) => void): TurnLines {
  /** The lines after the first of this turn; undefined in a turn without lines. */
  let held: string[] | undefined;
  const flush = () => {
    const lines = held?.join('') ?? '';
    held = undefined;
    if (lines !== '') handOn(lines);
  };
  return {
    write(line) {
      if (held !== undefined) {
        held.push(line);
        return;
      }
      held = [];
      setImmediate(flush);
      handOn(line);
    },
    flush,
  };
}
