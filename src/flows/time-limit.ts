/** A signal that aborts when its time is up, or with the signal around it. */
export interface TimeLimit {
  readonly signal: AbortSignal;
  /** Whether it was the time that ended it. */
  readonly isUp: boolean;
  /** Stops the timer; to be called in any case. */
  end(): void;
}

// AbortSignal.any over AbortSignal.timeout says the same, but may be collected as garbage before it fires
// (github.com/nodejs/node/issues/57736, read 2026-11), and refuses fractions of a millisecond.
export function startTimeLimit(seconds: number, outer: AbortSignal): TimeLimit {
  const controller = new AbortController();
  let isUp = false;
  const abort = () => controller.abort(outer.reason);
  const timer = setTimeout(() => {
    isUp = true;
    controller.abort(new Error('the time is up'));
  }, seconds * 1000);
  if (outer.aborted) abort();
  else outer.addEventListener('abort', abort);
  return {
    signal: controller.signal,
    get isUp() {
      return isUp;
    },
    end() {
      clearTimeout(timer);
      outer.removeEventListener('abort', abort);
    },
  };
}
