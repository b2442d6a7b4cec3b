/** Roughly how long a delivery that arrives meanwhile has to wait. */
const TURN_MS = 5;

/**
 * Makes a function to await before each of many items: every few ms, it lets other work have the event loop. Concurrent
 * callers continue one after the other; otherwise all of them would share one turn.
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
