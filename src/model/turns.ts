/** A delivery that arrives meanwhile waits for about so long. */
const TURN_MS = 5;

/**
 * Yields what work on many things awaits before each of them: every few ms others have the event loop. Those that wait at
 * once go on one behind the other, else all of them together would take one turn.
 */
export function inTurns(): () => Promise<void> {
  let began = performance.now();
  let last = Promise.resolve();
  const turn = async () => {
    if (performance.now() - began < TURN_MS) return;
    await new Promise((resolve) => setImmediate(resolve));
    began = performance.now();
  };
  return () => {
    last = last.then(turn);
    return last;
  };
}
