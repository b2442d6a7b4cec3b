/** A delivery that arrives meanwhile waits for about so long. */
const TURN_MS = 5;

/** Yields what work on many things awaits before each of them: every few ms others have the event loop. */
export function inTurns(): () => Promise<void> {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < TURN_MS) return;
    await new Promise((resolve) => setImmediate(resolve));
    began = performance.now();
  };
}
